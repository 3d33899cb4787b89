// Package wallclock knows what becomes of times of day when the clock is set.
// A board without a battery boots in 1970 and learns the time minutes later.
//
// It owns that knowledge and the watch for a clock that is set. It reads the
// clock, and never sets it. Whatever measures how long something took uses the
// monotonic readings of time.Time and needs none of this; it is for times that
// were written down, by us or by the runtime.
package wallclock
