package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podstead/podstead/internal/cgroupvalues"
	"github.com/podstead/podstead/internal/usage"
)

// Details reads what the kernel reports of a cgroup in addition to Usage. It sets no time
// and no processes. Values of a missing cgroup are nil.
func (r *Reader) Details(path string) usage.Cgroup {
	d := usage.Cgroup{
		Path: path, IO: r.IO(path), Burst: r.burst(path), Memory: r.memoryDetails(path),
		Limits: usage.Limits{CPU: r.cpuLimits(path), Memory: r.memoryLimits(path),
			Threads: limitOf(r.directory(controllerPids, path), "pids.max")},
	}
	d.Pressure = r.Pressure(path)
	return d
}

// Pressure reads the pressure of a cgroup, which only cgroup v2 has.
func (r *Reader) Pressure(path string) []usage.Pressure {
	if !r.h.v2() {
		return nil
	}
	return pressures(filepath.Join(r.h.unified, path), ".pressure")
}

// NodePressure reads the pressure of the whole node below the directory of /proc, which the
// kernel reports with each version of cgroups.
func NodePressure(proc string) []usage.Pressure {
	return pressures(filepath.Join(proc, "pressure"), "")
}

// pressures reads the files of a directory, whose names end in suffix.
func pressures(dir, suffix string) (list []usage.Pressure) {
	for _, resource := range []string{"cpu", "memory", "io"} {
		if p, ok := pressure(dir, resource, suffix); ok {
			list = append(list, p)
		}
	}
	return list
}

// Processes returns the processes directly in a cgroup.
func (r *Reader) Processes(path string) []int {
	var pids []int
	// Without its own memory controller a cgroup still has the one of CPU.
	for _, controller := range []string{controllerMemory, controllerCPU} {
		dir := r.directory(controller, path)
		if dir == "" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for line := range bytes.Lines(data) {
			if pid, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		break
	}
	return pids
}

// limitOf reads a limit; 0 is none. It returns nil if the file does not exist.
func limitOf(dir, file string) *uint64 {
	var limit *uint64
	_ = readFile(dir, file, func(data []byte) error {
		n := parseLimit(string(data))
		limit = &n
		return nil
	})
	return limit
}

// parseLimit returns 0 for "max" and -1, and for the largest numbers of cgroup v1, which
// are no limits either.
func parseLimit(text string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil || n >= 1<<62 {
		return 0
	}
	return n
}

func (r *Reader) cpuLimits(path string) *usage.CPULimits {
	dir := r.directory(controllerCPU, path)
	limits := &usage.CPULimits{}
	if !r.h.v2() {
		shares, period := limitOf(dir, "cpu.shares"), limitOf(dir, "cpu.cfs_period_us")
		if shares == nil {
			return nil
		}
		limits.Shares = *shares
		if quota := limitOf(dir, "cpu.cfs_quota_us"); period != nil && quota != nil {
			limits.Period, limits.Quota = *period, *quota
		}
		return limits
	}
	weight := limitOf(dir, "cpu.weight")
	if weight == nil {
		return nil
	}
	limits.Shares = cgroupvalues.SharesOfWeight(*weight)
	_ = readFile(dir, "cpu.max", func(data []byte) error {
		quota, period, _ := strings.Cut(string(data), " ")
		limits.Quota, limits.Period = parseLimit(quota), parseLimit(period)
		return nil
	})
	return limits
}

func (r *Reader) memoryLimits(path string) *usage.MemoryLimits {
	dir := r.directory(controllerMemory, path)
	limit, swap, reservation := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.soft_limit_in_bytes"
	if r.h.v2() {
		limit, swap, reservation = "memory.max", "memory.swap.max", "memory.min"
	}
	m := limitOf(dir, limit)
	if m == nil {
		return nil
	}
	limits := &usage.MemoryLimits{Limit: *m}
	if n := limitOf(dir, swap); n != nil { // missing without swap accounting
		limits.SwapLimit = *n
	}
	if n := limitOf(dir, reservation); n != nil {
		limits.Reservation = *n
	}
	return limits
}

func (r *Reader) burst(path string) (found *usage.Burst) {
	b := &usage.Burst{}
	_ = readFields(r.directory(controllerCPU, path), "cpu.stat", func(name string, n uint64) {
		switch name {
		case "nr_bursts":
			b.Periods, found = n, b
		case "burst_usec":
			b.Time = time.Duration(n) * time.Microsecond
		case "burst_time":
			b.Time = time.Duration(n)
		}
	})
	return found
}

func (r *Reader) memoryDetails(path string) (m usage.MemoryDetails) {
	dir := r.directory(controllerMemory, path)
	active, inactive, kills, killFile := "total_active_file", "total_inactive_file", "oom_kill", "memory.oom_control"
	if r.h.v2() {
		active, inactive, killFile = "active_file", "inactive_file", "memory.events"
	}
	_ = readFields(dir, "memory.stat", func(name string, n uint64) {
		switch {
		case name == active:
			m.ActiveFile = &n
		case name == inactive:
			m.InactiveFile = &n
		case name == "kernel" && r.h.v2(): // Linux 5.18
			m.Kernel = &n
		}
	})
	_ = readFields(dir, killFile, func(name string, n uint64) {
		switch {
		case name == kills: // Linux 4.13
			m.OOMKills = &n
		case name == "max" && r.h.v2():
			m.LimitHits = &n
		}
	})
	if !r.h.v2() {
		m.Kernel, m.LimitHits = limitOf(dir, "memory.kmem.usage_in_bytes"), limitOf(dir, "memory.failcnt")
	}
	return m
}

// pressure reads a file such as memory.pressure:
//
//	some avg10=0.00 avg60=0.00 avg300=0.00 total=123
//	full avg10=0.00 avg60=0.00 avg300=0.00 total=45
//
// total is in microseconds. The file cannot be read if the kernel has no PSI, or was booted
// without it.
func pressure(dir, resource, suffix string) (p usage.Pressure, ok bool) {
	err := readFile(dir, resource+suffix, func(data []byte) error {
		for line := range strings.Lines(string(data)) {
			kind, rest, _ := strings.Cut(line, " ")
			var total uint64
			var averages [3]float64
			for field := range strings.FieldsSeq(rest) {
				var err error
				switch name, text, _ := strings.Cut(field, "="); name {
				case "avg10":
					averages[0], err = strconv.ParseFloat(text, 64)
				case "avg60":
					averages[1], err = strconv.ParseFloat(text, 64)
				case "avg300":
					averages[2], err = strconv.ParseFloat(text, 64)
				case "total":
					total, err = strconv.ParseUint(text, 10, 64)
				}
				if err != nil {
					return err
				}
			}
			switch waited := time.Duration(total) * time.Microsecond; kind {
			case "some":
				p.Some, p.SomeAverages, ok = waited, averages, true
			case "full":
				p.Full, p.FullAverages = waited, averages
			}
		}
		return nil
	})
	p.Resource = resource
	return p, ok && err == nil
}
