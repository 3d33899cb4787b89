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

// PrivateMemory returns the memory of a process that the kernel cannot take back, in bytes: the pages
// that it alone has written to, in memory or swapped out. Pages of code and of files that are unchanged
// are no part of it, since the kernel drops them when memory runs short.
func PrivateMemory(pid int) (int64, error) {
	file := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	sum, found := int64(0), 0
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "Private_Dirty:" && f[0] != "Swap:" {
			continue
		}
		kb, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("failed to parse %s: %w", file, err)
		}
		sum, found = sum+kb<<10, found+1
	}
	if found != 2 {
		return 0, fmt.Errorf("failed to parse %s: %d of the fields Private_Dirty and Swap", file, found)
	}
	return sum, nil
}
