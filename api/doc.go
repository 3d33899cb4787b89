// Package api has the wire types of podstead's own endpoints: what the daemon's packages answer, what
// httpapi serves, and what the commands and other programs read.
//
// It owns the names of the JSON fields, which do not change after a release. It reads nothing, and never
// imports anything of this project but internal/pod.
package api
