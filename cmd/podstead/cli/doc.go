// Package cli is what a person types.
//
// It owns the commands, one file each, the HTTP client of the daemon's socket,
// the tables and other forms in which objects are printed, and the exit codes.
//
// It reads the daemon's API, above all the part of the Kubernetes API that the
// daemon answers and that kubectl reads too, and for validate and the like the
// given files. It never imports one of the daemon's rooms but the pure part of
// manifest, so that each command works on a machine where no daemon can run.
package cli
