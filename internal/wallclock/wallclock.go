package wallclock

import "time"

// first is a time before which no clock that was set can be: this program is
// younger.
var first = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// Unset reports whether a time that was written down is from before the clock
// was set, as far as that can be told now: it is from a year that cannot be, or
// lies ahead.
func Unset(t, now time.Time) bool {
	return t.Before(first) && !now.Before(first) || t.After(now.Add(slack))
}

// slack is how far ahead a time may lie that another clock, such as a file
// system's, has written.
const slack = time.Minute

// Jump is by how much the clock was set forward since a time that still has its
// monotonic reading; negative if it was set back.
func Jump(since, now time.Time) time.Duration {
	return now.Round(0).Sub(since.Round(0)) - now.Sub(since)
}
