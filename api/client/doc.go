// Package client is the client of the daemon's API, for the commands and for other programs on the node.
//
// It owns the HTTP requests over the daemon's unix socket: a method for each of podstead's own endpoints, and general
// ones for the Kubernetes API. It owns the errors that distinguish a daemon that cannot be reached from one that
// returns an error.
//
// It reads the socket that the caller names. It never prints and never decides on an
// exit code.
package client
