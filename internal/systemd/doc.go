// Package systemd reports the state of the daemon to systemd, if that started it.
//
// It owns the notifications of a service, and reads the environment that systemd sets. It never fails: a
// notification that cannot be sent is logged.
package systemd
