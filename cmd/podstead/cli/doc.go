// Package cli is what a person types.
//
// It owns the commands, one file each, the HTTP client of the daemon's socket,
// and the tables.
//
// It reads the daemon's API, and for validate the given files. It never imports one
// of the daemon's rooms but the pure part of manifest, so that each command
// works on a machine where no daemon can run.
package cli
