package retry

import (
	"context"
	"time"
)

// Sleep waits for d and reports whether it has passed; false if ctx ended before.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Delay returns the wait after a number of failures in a row: first after one, and twice as long after each further
// one, at most limit.
func Delay(failures int, first, limit time.Duration) time.Duration {
	d := min(first, limit)
	for ; failures > 1 && d < limit; failures-- {
		d = min(2*d, limit)
	}
	return d
}
