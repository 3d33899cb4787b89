// Package cli holds the commands of podstead other than run and check.
//
// It owns the commands, one file each (cmd_*.go), their registration, shell completion
// and the exit codes. Packages below it hold the API client, output formats, tables and
// the larger commands.
//
// It reads the daemon's API, above all the part of the Kubernetes API that the daemon
// serves and that kubectl uses too, and for validate and similar commands the given
// files. It never imports one of the daemon's packages except the pure part of manifest, so
// that each command works on a machine where no daemon can run.
package cli
