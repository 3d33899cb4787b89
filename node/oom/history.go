package oom

import (
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxHistory bounds the kills that are remembered. An older one than these has been
	// asked about, unless hundreds of processes are killed at once.
	maxHistory = 512
	// exitTime is the longest time from a kill to the end of a container that it
	// explains: freeing much memory takes seconds. It is shorter than the default grace
	// period, so that the SIGKILL at the end of one is not mistaken for an OOM kill.
	exitTime = 10 * time.Second
	// readDelay is the longest time from a kill to its reading, for a daemon that
	// does not get the CPU.
	readDelay = 30 * time.Second
	// driftRate is how far the clock of the kernel log, which NTP does not adjust, runs
	// from the time of day, as one part in this many.
	driftRate = 10_000
)

// drift returns how far the time of a record may be from the time of day.
func drift(age time.Duration) time.Duration { return age / driftRate }

// history are the kills of processes whose cgroup is known, newest last. The zero value is
// ready for use.
type history struct {
	mu   sync.Mutex
	list []pastKill
}

// pastKill is a kill in a cgroup at a time of day, which may be off by inexact.
type pastKill struct {
	cgroup  string
	at      time.Time
	inexact time.Duration
}

func (h *history) add(k Kill, at time.Time, inexact time.Duration) {
	if k.Cgroup == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.list) == maxHistory {
		h.list = append(h.list[:0], h.list[1:]...)
	}
	h.list = append(h.list, pastKill{k.Cgroup, at.Round(0), inexact})
}

// explains reports whether a process of the container was killed when the container
// ended. The time matters because a container may keep running after the kill of one of
// its processes, and end later for another reason.
func (h *history) explains(containerID string, finished time.Time) bool {
	if containerID == "" || finished.IsZero() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.list {
		after := finished.Sub(k.at)
		if strings.Contains(k.cgroup, containerID) && after <= exitTime+k.inexact && after >= -readDelay-k.inexact {
			return true
		}
	}
	return false
}

// withoutWaiting reads what a non-blocking file has now, and fails with EAGAIN at its end.
type withoutWaiting struct{ conn syscall.RawConn }

func (r withoutWaiting) Read(p []byte) (n int, err error) {
	failed := r.conn.Read(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), p)
		return true
	})
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// uptime returns the time since the boot by the clock of the kernel log, without the time
// that the host was suspended.
func uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
