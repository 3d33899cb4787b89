package stats

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/node/cgroup"
)

// runtime returns the usage of the container runtime: that of its process's cgroup, which
// has the runtime's helpers too, or that of the process alone if the cgroup has more in it.
func (c *Collector) runtime(pid int) usage.Usage {
	if pid == 0 {
		return usage.Usage{}
	}
	path := c.cgroupOfProcess(strconv.Itoa(pid))
	if path != "" && path != c.cgroupOfProcess("self") && !c.containsPods(path) {
		if u, ok := c.readCgroup(path); ok {
			return u
		}
	}
	return c.processUsage(pid)
}

// containsPods reports whether the cgroup of all pods is below a path.
func (c *Collector) containsPods(path string) bool {
	for _, root := range cgroup.RootPaths(c.cfg.CgroupRoot) {
		if path == "/" || root == path || strings.HasPrefix(root, path+"/") {
			return true
		}
	}
	return false
}

// cgroupOfProcess returns the path of a process's cgroup, empty if it is unknown. A line is
// "5:memory:/path" in cgroup v1, "0::/path" in v2.
func (c *Collector) cgroupOfProcess(pid string) string {
	if c.cfg.Cgroups == nil {
		return ""
	}
	data, err := boundedfile.Head(filepath.Join(c.cfg.proc, pid, "cgroup"), 16<<10)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		if ok && (controllers == "" && c.cfg.Cgroups.V2() || controllers == "memory") {
			return path
		}
	}
	return ""
}

// processUsage returns the usage of one process.
func (c *Collector) processUsage(pid int) usage.Usage {
	u := usage.Usage{At: time.Now()}
	data, err := boundedfile.Head(c.process(pid, "stat"), 4<<10)
	if err != nil {
		return usage.Usage{}
	}
	// The name in parentheses may contain anything. State is the first field after it.
	_, rest, _ := bytes.Cut(data[max(bytes.LastIndexByte(data, ')'), 0):], []byte(" "))
	fields := strings.Fields(string(rest))
	const minorFaults, majorFaults, user, system = 7, 9, 11, 12
	if len(fields) <= system {
		return usage.Usage{}
	}
	number := func(i int) uint64 {
		n, _ := strconv.ParseUint(fields[i], 10, 64) // the kernel writes numbers
		return n
	}
	ticks := func(i int) time.Duration { return time.Duration(number(i)) * (time.Second / userHZ) }
	u.CPU = &usage.CPU{User: ticks(user), System: ticks(system), Total: ticks(user) + ticks(system)}
	if u.Memory = c.processMemory(strconv.Itoa(pid)); u.Memory != nil {
		u.Memory.PageFaults, u.Memory.MajorPageFaults = number(minorFaults)+number(majorFaults), number(majorFaults)
	}
	return u
}

// processMemory reads statm: 5000 2000 1500 … are the pages of address space, resident,
// shared. It returns nil if the process has ended.
func (c *Collector) processMemory(pid string) *usage.Memory {
	data, err := boundedfile.Head(filepath.Join(c.cfg.proc, pid, "statm"), 4<<10)
	f := strings.Fields(string(data))
	if err != nil || len(f) < 3 {
		return nil
	}
	resident, err := strconv.ParseUint(f[1], 10, 64)
	shared, err2 := strconv.ParseUint(f[2], 10, 64)
	if err != nil || err2 != nil {
		return nil
	}
	page := uint64(os.Getpagesize())
	return &usage.Memory{Usage: resident * page, RSS: (resident - min(shared, resident)) * page, MappedFile: shared * page}
}

// miscOf returns the usage of the node without pods, daemon and runtime. Its CPU time never
// decreases, although its parts are not measured at the same instant and a runtime that
// restarts begins again at 0.
func miscOf(n, last *usage.Node) usage.Usage {
	u := usage.Usage{At: n.At}
	parts := []*usage.Usage{&n.Pods, &n.Daemon, &n.Runtime}
	if n.CPU != nil {
		cpu := usage.CPU{Total: n.CPU.Total, User: n.CPU.User, System: n.CPU.System}
		for _, part := range parts {
			if part.CPU != nil {
				cpu.Total -= min(part.CPU.Total, cpu.Total)
				cpu.User -= min(part.CPU.User, cpu.User)
				cpu.System -= min(part.CPU.System, cpu.System)
			}
		}
		if last != nil && last.Misc.CPU != nil {
			cpu.Total, cpu.User, cpu.System = max(cpu.Total, last.Misc.CPU.Total), max(cpu.User, last.Misc.CPU.User),
				max(cpu.System, last.Misc.CPU.System)
		}
		u.CPU = &cpu
	}
	if n.Memory != nil {
		m := *n.Memory
		m.Limit, m.Peak = 0, 0
		for _, part := range parts {
			if p := part.Memory; p != nil {
				m.Usage -= min(p.Usage, m.Usage)
				m.InactiveFile -= min(p.InactiveFile, m.InactiveFile)
				m.RSS -= min(p.RSS, m.RSS)
				m.Cache -= min(p.Cache, m.Cache)
				m.MappedFile -= min(p.MappedFile, m.MappedFile)
				m.Swap -= min(p.Swap, m.Swap)
				m.PageFaults -= min(p.PageFaults, m.PageFaults)
				m.MajorPageFaults -= min(p.MajorPageFaults, m.MajorPageFaults)
			}
		}
		u.Memory = &m
	}
	return u
}
