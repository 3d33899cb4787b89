package testbed

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time that a process has used so far, threads that have
// ended included. It is the scheduler's exact account: the one in /proc/PID/stat
// is sampled on many kernels, and misses work that is shorter than a tick.
func CPU(pid int) (time.Duration, error) {
	// The clock ID of another process, as clock_getcpuclockid(3) makes it.
	const sched = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &used); err != nil {
		return 0, fmt.Errorf("cannot read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// Memory is what a process holds resident, in bytes.
type Memory struct {
	RSS  int64 // all its pages
	Anon int64 // those that no file backs
	Pss  int64 // with shared pages divided by those who share them
}

// MemoryOf reads a process's memory.
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
