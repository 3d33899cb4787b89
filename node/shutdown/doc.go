// Package shutdown lets pods end in order before the host goes down.
//
// It owns the delay lock at systemd-logind, how long logind waits for it, and
// the order in which groups of pods end, the least priority first, each group
// within a time of its own. It reads from logind when the host is about to go
// down and when that was called off, and from systemd whether it is going down
// now. It never stops a pod itself: it asks the workers, who know how.
package shutdown
