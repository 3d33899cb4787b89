// Package client is the client of the daemon's API.
//
// It owns the HTTP requests over the daemon's unix socket, the streams of exec, attach
// and port-forward, and the errors that distinguish a daemon that cannot be reached
// from one that returns an error.
//
// It reads the socket that the caller names. It never prints and never decides on an
// exit code.
package client
