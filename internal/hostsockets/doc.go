// Package hostsockets owns finding the processes of the host that listen on ports which pods take as
// host ports: the runtime's port mapping takes the connections away from them, without an error.
//
// It reads the socket tables of the kernel and, for a port that is taken, the open files of
// processes. It never opens or closes a socket.
package hostsockets
