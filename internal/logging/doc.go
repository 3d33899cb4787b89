// Package logging creates the daemon's logger.
//
// It owns the form of messages, and whether they reach standard error. It reads the environment, which reports
// whether journald or a terminal is at the other end. It never drops a message.
package logging
