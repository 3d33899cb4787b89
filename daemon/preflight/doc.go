// Package preflight checks the host before the daemon starts.
//
// It owns the checks that must prevent the start: a second daemon with the same root
// directory, and a kubelet on the same runtime, which would kill every pod that it does
// not know. It also owns the checks of podstead check: what is missing or wrong on the
// host, and the command that fixes it.
//
// It reads the host's files and what the runtime reports, and takes a file lock. It
// never changes anything else, except with the commands that Repair is asked to run, and never opens a port.
package preflight
