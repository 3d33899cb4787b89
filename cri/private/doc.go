// Package private finds a container runtime, and where none runs starts and keeps
// a private containerd.
//
// It owns the list of the usual sockets, the private containerd's directories,
// config and CNI network, and the process: started in its own session, logging to
// a file, found again by its socket, restarted when it exits. Containers survive
// a restart of both the containerd and podstead.
//
// It reads the host's sockets, programs and CNI directory. It is not needed when
// an endpoint is given, and it never stops the containerd that it started: only a
// shutdown of the machine or the administrator does.
package private
