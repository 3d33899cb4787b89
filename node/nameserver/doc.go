// Package nameserver answers DNS queries of the pods of this node: the names of pods and Services
// itself, everything else by asking the name servers of the node.
//
// It owns the server process: its listeners, its cache, its limits and its control socket. It
// reads the Snapshot that the daemon writes, each time that file changes, and the resolv.conf of
// the node. Its clients are containers, so that everything they can multiply has a bound, and
// only addresses of pod networks are answered.
//
// It never decides which pods have names, never writes the snapshot, and is never needed for a
// pod to start.
package nameserver
