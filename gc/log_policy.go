package gc

import (
	"cmp"
	"slices"
	"time"
)

// LogPolicy limits the logs of containers.
type LogPolicy struct {
	// MaxSize is the size in bytes at which a log is rotated; negative or 0
	// rotates none.
	MaxSize int64
	// MaxFiles is how many files one instance of a container has at most,
	// including the current one; 2 at least.
	MaxFiles int
	// MaxPod is how many bytes the logs of one pod have at most, earlier
	// instances of its containers included; 0 means no limit beyond those above.
	// Current files are never removed, so that each may still grow to MaxSize.
	MaxPod int64
}

// logFile is one log file of a pod.
type logFile struct {
	path     string
	size     int64
	modified time.Time
	// current: a running container writes to it.
	current bool
}

// filesOverLimit selects the files to remove so that a pod's logs meet a limit:
// the oldest first.
func filesOverLimit(files []logFile, most int64) []string {
	total := int64(0)
	for i := range files {
		total += files[i].size
	}
	slices.SortFunc(files, func(a, b logFile) int {
		return cmp.Or(a.modified.Compare(b.modified), cmp.Compare(a.path, b.path))
	})
	var goes []string
	for i := range files {
		if total <= most {
			break
		}
		if !files[i].current {
			goes = append(goes, files[i].path)
			total -= files[i].size
		}
	}
	return goes
}

const (
	// minCheckInterval is the time from the first write after a pause to a check
	// of the log's size, and the least between two checks.
	minCheckInterval = 100 * time.Millisecond
	// maxCheckInterval is the longest time between two checks of a log that is
	// written to: it limits by how much a container that suddenly writes fast
	// exceeds the limit.
	maxCheckInterval = 2 * time.Second
)

// unknownRate is that of a log that was checked once.
const unknownRate = -1

// nextCheck returns when to check a log again that has grown to size at this
// rate, in bytes a second: halfway to the limit.
func nextCheck(size, most int64, rate float64) time.Duration {
	switch {
	case rate < 0:
		return minCheckInterval
	case rate == 0:
		return maxCheckInterval
	}
	left := float64(max(most-size, 0)) / rate / 2
	return time.Duration(min(max(left, minCheckInterval.Seconds()), maxCheckInterval.Seconds()) * float64(time.Second))
}
