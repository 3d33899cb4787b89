// Package keeper starts the name server of the pods as a process of its own and keeps it running.
//
// It owns that process: it is started in a session of its own, found again by its control socket
// after a restart of the daemon, replaced in place when the daemon's program is another one, and
// started again when it ends. It reads the reports of the control socket, and writes the settings
// of the snapshot.
//
// It never stops the process: pods keep the name server that they were created with, whatever the
// daemon does.
package keeper
