package oom

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podstead/podstead/internal/boundedfile"
)

// maxProc is more than the size of what /proc shows of a process, in bytes.
const maxProc = 1 << 20

// cgroupOf returns the cgroup of a victim that has not exited yet, empty if that cannot be
// told. The kernel limits the rate of the lines with cgroups to 10 in 5 s for the whole
// host, but always reports the process.
func cgroupOf(proc string, k Kill) string {
	dir := filepath.Join(proc, strconv.Itoa(k.PID))
	comm, err := boundedfile.Read(filepath.Join(dir, "comm"), maxProc)
	if err != nil || strings.TrimSuffix(string(comm), "\n") != k.Process {
		// Another PID namespace, or the ID was used again.
		return ""
	}
	text, err := boundedfile.Read(filepath.Join(dir, "cgroup"), maxProc)
	if err != nil {
		return ""
	}
	unified := ""
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(fields) != 3 || fields[2] == "/":
			// A process that exits is moved to the root of a v1 hierarchy.
		case slices.Contains(strings.Split(fields[1], ","), "memory"):
			return fields[2]
		case fields[0] == "0" && fields[1] == "":
			unified = fields[2]
		}
	}
	return unified
}
