package gc

import (
	"cmp"
	"slices"
	"time"
)

// LogPolicy bounds the logs of containers.
type LogPolicy struct {
	// MaxSize is the size in bytes at which a log is rotated; negative or 0
	// rotates none.
	MaxSize int64
	// MaxFiles is how many files one instance of a container has at most, the
	// one that is written included; 2 at least.
	MaxFiles int
	// MaxPod is how many bytes the logs of one pod have at most, earlier
	// instances of its containers included; 0 is no bound beyond those above.
	// Files that are written to are never removed, so that each may still grow
	// to MaxSize.
	MaxPod int64
}

// logFile is a file among the logs of a pod.
type logFile struct {
	path     string
	size     int64
	modified time.Time
	// current: a container that runs writes to it.
	current bool
}

// beyond chooses which files go so that a pod's logs keep to a bound: the
// oldest first.
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
	// checkSoon is the time from the first write after a silence to a look at
	// the log's size, and the least between two looks.
	minCheckInterval = 100 * time.Millisecond
	// checkLate is the most between two looks at a log that is written to: what
	// a container that suddenly prints fast may print beyond the bound.
	maxCheckInterval = 2 * time.Second
)

// unknownRate is that of a log that was looked at once.
const unknownRate = -1

// nextCheck is when to look again at a log that has grown to size at this
// rate, in bytes a second: halfway to the bound.
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
