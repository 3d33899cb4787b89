// Package preflight looks at the host before the daemon starts.
//
// It owns the checks whose failure must end the start: a second daemon on the
// same root folder, and a kubelet on the same runtime, which would kill every
// pod that it does not know.
//
// It reads /proc and takes a file lock. It never changes anything else.
package preflight
