// Package event records what happens to pods and to the node, for people to
// read.
//
// It owns the recorder: equal events are one event with a count, the newest
// are kept within a bound, the first of a burst is a log line, and subscribers
// are woken. It owns the journal too, a file that keeps the events over a
// restart of the daemon, within bounds of size and age. Rooms that record
// declare the one method they need and never import this package.
//
// It reads the clock and its own file. It never decides anything and never
// blocks whoever records: writing is a goroutine's, a few seconds apart.
package event
