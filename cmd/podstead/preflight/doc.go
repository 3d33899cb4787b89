// Package preflight looks at the host before the daemon starts.
//
// It owns the checks whose failure must end the start: a second daemon on the
// same root folder, and a kubelet on the same runtime, which would kill every
// pod that it does not know. And it owns those of podstead check: what of a host
// is missing or wrong for pods, with the command that mends it.
//
// It reads the host's files and what others found out of the runtime, and takes
// a file lock. It never changes anything else, and never opens a port.
package preflight
