package testbed

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the CPU time that a process has used, including threads that have ended. It
// reads the scheduler's exact clock: /proc/PID/stat is sampled on many kernels and misses work
// that is shorter than a tick.
func CPU(pid int) (time.Duration, error) {
	// The clock ID of another process, as clock_getcpuclockid(3) makes it.
	const sched = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &used); err != nil {
		return 0, fmt.Errorf("cannot read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// Memory is the resident memory of a process, in bytes.
type Memory struct {
	RSS  int64 // all resident pages
	Anon int64 // pages not backed by a file
	Pss  int64 // shared pages divided by the number of processes that share them
}

// MemoryOf reads the memory usage of a process.
func MemoryOf(pid int) (Memory, error) {
	var m Memory
	for file, want := range map[string]map[string]*int64{
		"status":       {"VmRSS:": &m.RSS, "RssAnon:": &m.Anon},
		"smaps_rollup": {"Pss:": &m.Pss},
	} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return m, err
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) < 2 || want[f[0]] == nil {
				continue
			}
			kb, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return m, err
			}
			*want[f[0]] = kb << 10
		}
	}
	return m, nil
}
