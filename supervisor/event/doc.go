// Package event records the events of pods and of the node.
//
// It owns the recorder: equal events are one event with a count, the newest
// are kept within a bound, the first of a burst is logged, and subscribers
// are notified. It also owns the journal, a file that keeps the events over a
// restart of the daemon, within bounds of size and age. Packages that record
// events declare the one method that they need and never import this package.
//
// It reads the clock and its own file. It never decides anything and never
// blocks the caller that records: one goroutine writes, a few seconds apart.
package event
