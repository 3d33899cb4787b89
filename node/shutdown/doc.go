// Package shutdown terminates pods in order before the host shuts down.
//
// It owns the delay inhibitor lock at systemd-logind, how long logind waits for
// it, and the order in which groups of pods terminate, lowest priority first, each
// group within its own period. It reads from logind when the host is about to shut
// down and when that was cancelled, and from systemd whether it is shutting down
// now. It never stops a pod itself: it asks the pod workers.
package shutdown
