// Package streaming carries exec, attach and port forwarding between a client
// over HTTP and a container.
//
// It owns the protocols on the client's side, which end here: SPDY/3.1 with
// the remote command protocols v1 to v4, WebSocket with v5.channel.k8s.io and
// v4.channel.k8s.io (and their older forms), and for port forwarding SPDY/3.1,
// plain or tunnelled in WebSocket. It owns the joining of the streams: stdin's
// end is passed on, nothing is buffered beyond one chunk a stream, so that a
// slow side slows the other down, and when either side goes away everything of
// the session ends.
//
// It reads the address that the runtime gives for one session, and speaks SPDY
// with it, as every container runtime does; ports are dialed in the pod's own
// network namespace where that can be entered. It never looks for a pod, and
// never decides who may use one.
//
// # Idle sessions and stalled ones
//
// A session in which nothing moved for Config.Idle ends. Who waits for the
// other side to take something cannot see that its own side is gone, as that
// would be told behind the bytes it does not read: so the socket is asked
// every few seconds while, and only while, a write waits.
package streaming
