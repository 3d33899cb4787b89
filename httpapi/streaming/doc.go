// Package streaming carries exec, attach and port forwarding between an HTTP
// client and a container.
//
// It owns the protocols on the client's side, which end here: for exec and attach
// v4.channel.k8s.io over SPDY/3.1 and the three before it, and v5.channel.k8s.io,
// v4.channel.k8s.io, channel.k8s.io and their forms in base64 over WebSocket, as at the kubelet; for
// port forwarding portforward.k8s.io over SPDY/3.1, plain or tunneled
// through WebSocket. kubectl asks for
// WebSocket first and falls back to SPDY. Other protocols are rejected with the list
// of supported ones. The package also owns the copying between both sides: the end of
// stdin is passed on, no more than one chunk per stream is buffered, so that a slow
// side slows down the other one, and when one side disconnects, the whole session ends.
//
// It reads the URL that the runtime returns for one session and speaks SPDY with it,
// as every container runtime does. Ports are dialed in the pod's own network namespace
// where that can be entered. It never looks up a pod and never decides who may access
// one.
//
// # Idle and stalled sessions
//
// A session without traffic for the configured idle timeout ends. While a write to
// one side blocks, nothing is read from the other side, so that its disconnect would go
// unnoticed: it would arrive behind the unread bytes. Therefore its socket is polled
// every few seconds while, and only while, a write blocks.
package streaming
