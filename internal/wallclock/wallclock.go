package wallclock

import "time"

// oldest is earlier than any time that a clock which was set can show: this
// program is younger.
var oldest = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// Unset reports whether a recorded time dates from before the clock was set, as
// far as can be known now: it is in an impossible year, or in the future.
func Unset(t, now time.Time) bool {
	return t.Before(oldest) && !now.Before(oldest) || t.After(now.Add(tolerance))
}

// Recorded returns a recorded time as it counts now. One that Unset reports counts as now; fixed reports that it
// is to be recorded again as that: a time in the future would otherwise be waited for, and one that counted as the
// present whenever it is read would never pass. While the clock itself is not set, nothing is fixed, and such a time
// counts as since, a time with its monotonic reading, such as the start of the program.
func Recorded(t, now, since time.Time) (counts time.Time, fixed bool) {
	switch {
	case t.IsZero() || !Unset(t, now):
		return t, false
	case now.Before(oldest):
		return since, false
	}
	return now.Round(0), true
}

// tolerance is how far in the future a time may be that another clock wrote, such
// as that of a file system.
const tolerance = time.Minute

// Jump returns by how much the clock was set forward since a time that still has
// its monotonic reading. It is negative if the clock was set back.
func Jump(since, now time.Time) time.Duration {
	return now.Round(0).Sub(since.Round(0)) - now.Sub(since)
}
