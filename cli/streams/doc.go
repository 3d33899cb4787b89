// Package streams carries the streams of exec, attach and port-forward.
//
// It owns the multiplexed connections to the daemon, and the exit code of a command in a container.
//
// It reads the local streams that the caller passes, and the daemon through its client. It never prints and never
// decides on an exit code of the program.
package streams
