package wallclock

import (
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Mark is a moment that does not move when the clock is set: the boot that it was
// in, and the time since that boot, suspend included.
type Mark struct {
	Boot string        `json:"boot"`
	Up   time.Duration `json:"up"`
}

// Now returns the present moment. ok is false if the kernel does not report the ID
// of the boot.
func Now() (m Mark, ok bool) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Mark{}, false
	}
	up, err := uptime()
	return Mark{Boot: strings.TrimSpace(string(id)), Up: up}, err == nil
}

func uptime() (time.Duration, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano()), err
}

// Uptime returns the time since the boot of the host, suspend included; of a host that does not
// report it, the longest there is.
func Uptime() time.Duration {
	up, err := uptime()
	if err != nil {
		return math.MaxInt64
	}
	return up
}

// Passed returns the time since an event that was recorded with a wall-clock time
// and a mark, which is nil if there is none. current is the result of Now, and
// known its ok. Within the boot of the mark the result is exact. In a later boot it
// follows the wall clock, and is at least the uptime, since the event came before
// the boot.
func Passed(at time.Time, mark *Mark, now time.Time, current Mark, known bool) time.Duration {
	if !known || mark == nil {
		return max(now.Sub(at), 0)
	}
	if mark.Boot == current.Boot {
		return max(current.Up-mark.Up, 0)
	}
	if Unset(at, now) {
		return current.Up
	}
	return max(now.Sub(at), current.Up)
}
