// Package private finds a container runtime, and where none runs starts and
// keeps a containerd of podstead's own.
//
// It owns the list of the usual sockets, the private containerd's folders,
// config and CNI network, and the process: started in a session of its own,
// logging to a file, found again by its socket, started anew when it ends.
// Containers survive both it and podstead being restarted.
//
// It reads the host's sockets, programs and CNI folder. It is not needed when
// an endpoint is given, and it never ends the containerd that it started:
// only the machine's shutdown or a person does.
package private
