package bed

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the kernel's unit of CPU time in /proc, the same on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// CPU is the processor time that a process and its threads have used so far.
func CPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Past the command's name, which may hold anything: state is field 3.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat is %q", pid, stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(user+system) * tick, nil
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
