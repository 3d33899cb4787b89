package autoupdate

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/podstead/podstead/internal/maintenance"
)

// Schedule reports when the images of pods are checked.
type Schedule struct {
	// Interval is the time between two checks of a pod.
	Interval time.Duration
	// Windows are the maintenance windows; without any, checks are made at any time.
	Windows []maintenance.Window
	// Node is the node's name. It decides, with the pod's name, at which part of the
	// interval a pod is checked, so that the nodes of a fleet do not ask a registry at the
	// same time.
	Node string
	// Location is the time zone of the windows; nil is the local one.
	Location *time.Location
}

const (
	// maxCatchUp limits the delay of checks that are overdue when the daemon starts, as
	// podman's timer has it. Without a delay a fleet whose power returns would ask at once.
	maxCatchUp = 15 * time.Minute
	// The first retry after a failed check, and the longest time between two retries.
	firstRetry, maxRetry = 5 * time.Minute, time.Hour
)

// share returns the part of the interval of a pod, at least 0 and less than 1. It is the
// same for each start of the daemon.
func (s *Schedule) share(pod string) float64 {
	sum := sha256.Sum256([]byte(s.Node + "\x00" + pod))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

func (s *Schedule) location() *time.Location {
	if s.Location == nil {
		return time.Local
	}
	return s.Location
}

// Next returns when a pod is due that was last checked at the time last, or that is known
// since then. started is the start of the daemon: what became due while it was down is
// checked some time after.
func (s *Schedule) Next(pod string, last, started time.Time) time.Time {
	share := s.share(pod)
	phase := time.Duration(share * float64(s.Interval))
	// The slots of a pod are at its phase after each multiple of the interval.
	since := time.Duration((last.UnixNano() - int64(phase)) % int64(s.Interval))
	if since < 0 {
		since += s.Interval
	}
	due := last.Add(s.Interval - since)
	if due.Before(started) {
		due = started.Add(time.Duration(share * float64(min(s.Interval/10, maxCatchUp))))
	}
	return s.inWindow(pod, due)
}

// Retry returns when a pod is due after a number of failed checks in a row, of which the
// last was at the given time.
func (s *Schedule) Retry(pod string, last time.Time, failures int) time.Time {
	delay := maxRetry
	if failures < 5 {
		delay = min(maxRetry, firstRetry<<max(failures-1, 0))
	}
	delay = min(delay, s.Interval)
	// Up to a fifth more, so that a fleet whose registry returns does not ask at once.
	return s.inWindow(pod, last.Add(delay+time.Duration(s.share(pod)*float64(delay/5))))
}

// inWindow returns the time if it is in a maintenance window, else a time in the first half
// of the next window, at the pod's part of it.
func (s *Schedule) inWindow(pod string, t time.Time) time.Time {
	if len(s.Windows) == 0 {
		return t
	}
	start, end := maintenance.Next(s.Windows, t, s.location())
	if !t.Before(start) {
		return t
	}
	return start.Add(time.Duration(s.share(pod) * float64(end.Sub(start)/2)))
}

// Open reports whether a time is in a maintenance window, or there are none.
func (s *Schedule) Open(t time.Time) bool {
	if len(s.Windows) == 0 {
		return true
	}
	start, _ := maintenance.Next(s.Windows, t, s.location())
	return !t.Before(start)
}
