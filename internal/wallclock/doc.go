// Package wallclock corrects wall-clock times when the clock is set. A board
// without a battery boots in 1970 and learns the time minutes later.
//
// It owns the detection of a clock that was set and of times that were recorded
// before. It reads the clock and never sets it. Code that measures a duration uses
// the monotonic readings of time.Time and does not need this package, which is for
// times that were recorded, by this daemon or by the runtime.
package wallclock
