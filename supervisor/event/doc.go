// Package event records what happens to pods, for people to read.
//
// It owns the recorder: equal events are one event with a count, the newest
// are kept within a bound, the first of a burst is a log line, and subscribers
// are woken. Rooms that record declare the one method they need and never
// import this package.
//
// It reads nothing but the clock. It never decides anything and never blocks
// whoever records.
package event
