package wallclock

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Mark is a moment that no clock which is set can move: the boot in which it
// was, and the time since then, sleep included.
type Mark struct {
	Boot string        `json:"boot"`
	Up   time.Duration `json:"up"`
}

// Now is this moment. Without an ID of the boot it is no mark, and ok is false.
func Now() (m Mark, ok bool) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Mark{}, false
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return Mark{}, false
	}
	return Mark{Boot: strings.TrimSpace(string(id)), Up: time.Duration(ts.Nano())}, true
}

// Passed is how much time has passed since something that happened at a time
// of day and at a mark, nil if there is none. In the boot of the mark that is
// exact. Later it goes by the time of day, and is as long as this boot lasts at
// least: it happened before.
func Passed(at time.Time, mark *Mark, now time.Time, here Mark, known bool) time.Duration {
	if !known || mark == nil {
		return max(now.Sub(at), 0)
	}
	if mark.Boot == here.Boot {
		return max(here.Up-mark.Up, 0)
	}
	if Unset(at, now) {
		return here.Up
	}
	return max(now.Sub(at), here.Up)
}
