// Package hangup ends the command of an exec session whose client has left.
// Container runtimes leave it running for ever, without anybody to read what it
// prints.
//
// It owns the list of sessions that go on, by which the processes of one are
// told from those of another, and the signals: SIGHUP as a terminal that is
// hung up gives it, and after a while SIGKILL. What ignores SIGHUP, as under
// nohup, is left alone, and so is what made a session of its own.
//
// It reads /proc. No runtime tells the process of a session; it is found as one
// that came into the container from outside since the session began and bears the
// session's command. Where more than one may be meant, nothing is ended, nor where
// the command has become another one. It never ends a container's own
// first process.
package hangup
