package stats

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/node/cgroup"
)

// measureNode measures the node. Values that cannot be measured are left out.
func (c *Collector) measureNode(ctx context.Context, last *usage.Node) (*usage.Node, error) {
	n := &usage.Node{}
	n.At = time.Now()
	c.readMemory(n)
	c.readCPU(n)
	n.Processes, n.MaxProcesses = c.processes()
	n.Interfaces = readInterfaces(filepath.Join(c.cfg.proc, "net/dev"))
	if c.cfg.Cgroups != nil {
		for _, path := range cgroup.RootPaths(c.cfg.CgroupRoot) {
			if u, ok := c.readCgroup(path); ok {
				n.Pods = u
				break
			}
		}
	}
	n.Daemon = c.daemon(n.At)
	if c.cfg.RuntimeProcess != nil {
		n.Runtime = c.runtime(c.cfg.RuntimeProcess())
	}
	n.Misc = miscOf(n, last)
	if fs, _, err := c.cfg.statfs(c.cfg.Root); err == nil {
		n.FS = &fs
	}
	c.readImages(ctx, n, last)
	c.nodeRates.begin()
	c.nodeRates.add("node", n.CPU, n.At, time.Time{})
	c.nodeRates.add("pods", n.Pods.CPU, n.Pods.At, time.Time{})
	c.nodeRates.add("daemon", n.Daemon.CPU, n.Daemon.At, time.Time{})
	c.nodeRates.add("runtime", n.Runtime.CPU, n.Runtime.At, time.Time{})
	c.nodeRates.add("misc", n.Misc.CPU, n.Misc.At, time.Time{})
	c.nodeRates.end()
	return n, nil
}

// readMemory reads meminfo, which counts the same on both cgroup versions: memory
// that is not free is used, and the part that the kernel can reclaim at once is
// not in the working set. If a cgroup limits the node, that cgroup is the node.
func (c *Collector) readMemory(n *usage.Node) {
	fields := map[string]uint64{}
	data, err := os.ReadFile(filepath.Join(c.cfg.proc, "meminfo"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		text := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB"))
		if v, err := strconv.ParseUint(text, 10, 64); err == nil {
			fields[name] = v << 10
		}
	}
	m := &usage.Memory{
		Limit: fields["MemTotal"], Usage: fields["MemTotal"] - min(fields["MemFree"], fields["MemTotal"]),
		InactiveFile: fields["Inactive(file)"], RSS: fields["AnonPages"],
		Cache: fields["Cached"] + fields["Buffers"], MappedFile: fields["Mapped"],
		Swap: fields["SwapTotal"] - min(fields["SwapFree"], fields["SwapTotal"]),
	}
	if data, err := os.ReadFile(filepath.Join(c.cfg.proc, "vmstat")); err == nil {
		for line := range strings.Lines(string(data)) {
			name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch name {
			case "pgfault":
				m.PageFaults, _ = strconv.ParseUint(text, 10, 64)
			case "pgmajfault":
				m.MajorPageFaults, _ = strconv.ParseUint(text, 10, 64)
			}
		}
	}
	n.Memory, n.SwapTotal = m, fields["SwapTotal"]
	if c.cfg.Ceiling != nil {
		above, limit := c.cfg.Ceiling()
		if own, err := above.Usage(); err == nil && own != nil && limit > 0 && uint64(limit) < m.Limit {
			n.Memory = own
			n.Memory.Limit, m = uint64(limit), own
		}
	}
	n.MemoryAvailable = m.Limit - min(m.WorkingSet(), m.Limit)
}

// userHZ is the unit of /proc/stat, the same on all platforms of Go.
const userHZ = 100

// readCPU reads the CPU time and the boot time.
func (c *Collector) readCPU(n *usage.Node) {
	data, err := os.ReadFile(filepath.Join(c.cfg.proc, "stat"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 8 && f[0] == "cpu":
			ticks := func(i int) time.Duration {
				v, _ := strconv.ParseUint(f[i], 10, 64) // the kernel writes numbers
				return time.Duration(v) * (time.Second / userHZ)
			}
			// Idle, iowait and steal are not usage; guests of this host are in
			// user.
			cpu := usage.CPU{User: ticks(1) + ticks(2), System: ticks(3) + ticks(6) + ticks(7)}
			cpu.Total = cpu.User + cpu.System
			n.CPU = &cpu
		case len(f) == 2 && f[0] == "btime":
			if v, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				n.BootedAt = time.Unix(v, 0)
			}
		}
	}
}

// processes returns the number of processes and threads, and their limit.
func (c *Collector) processes() (count *uint64, most uint64) {
	if data, err := os.ReadFile(filepath.Join(c.cfg.proc, "sys/kernel/pid_max")); err == nil {
		most, _ = strconv.ParseUint(string(bytes.TrimSpace(data)), 10, 64)
	}
	// Threads take process IDs, but have a limit of their own as well.
	if data, err := os.ReadFile(filepath.Join(c.cfg.proc, "sys/kernel/threads-max")); err == nil {
		if v, err := strconv.ParseUint(string(bytes.TrimSpace(data)), 10, 64); err == nil && (v < most || most == 0) {
			most = v
		}
	}
	data, err := os.ReadFile(filepath.Join(c.cfg.proc, "loadavg"))
	if err != nil {
		return nil, most
	}
	// 0.20 0.18 0.12 1/80 11206: the fourth field is running/all.
	f := strings.Fields(string(data))
	if len(f) < 4 {
		return nil, most
	}
	_, all, _ := strings.Cut(f[3], "/")
	n, err := strconv.ParseUint(all, 10, 64)
	if err != nil {
		return nil, most
	}
	return &n, most
}

// daemon returns the usage of this process.
func (c *Collector) daemon(at time.Time) usage.Usage {
	u := usage.Usage{At: at}
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err == nil {
		user, system := time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
		u.CPU = &usage.CPU{Total: user + system, User: user, System: system}
	}
	u.Memory = c.processMemory("self")
	if u.Memory != nil {
		u.Memory.PageFaults, u.Memory.MajorPageFaults = uint64(r.Minflt+r.Majflt), uint64(r.Majflt)
	}
	return u
}

// readImages asks the runtime for the file systems of its images and containers.
func (c *Collector) readImages(ctx context.Context, n, last *usage.Node) {
	images, containers, err := c.cfg.Runtime.ImageUsage(ctx)
	if err != nil {
		// The runtime is unavailable: keep the last values.
		if last != nil {
			n.ImageFS, n.ContainerFS = last.ImageFS, last.ContainerFS
		}
		return
	}
	n.ImageFS, n.ContainerFS = c.fsOf(images), c.fsOf(containers)
	if n.ContainerFS == nil {
		n.ContainerFS = n.ImageFS
	}
}

// fsOf returns the file system that the runtime uses, with the part that it uses.
func (c *Collector) fsOf(list []usage.RuntimeFilesystem) *usage.Filesystem {
	for _, t := range list {
		fs, _, err := c.cfg.statfs(t.Mount)
		if err != nil {
			continue
		}
		fs.Used, fs.InodesUsed = t.Used, t.Inodes
		return &fs
	}
	return nil
}

// statfs returns the usage of a file system, and whether it is in memory.
func statfs(path string) (f usage.Filesystem, memory bool, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return usage.Filesystem{}, false, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	size := uint64(s.Bsize)
	return usage.Filesystem{
		At: time.Now(), Capacity: s.Blocks * size, Available: s.Bavail * size, Used: (s.Blocks - s.Bfree) * size,
		Inodes: s.Files, InodesFree: s.Ffree, InodesUsed: s.Files - s.Ffree,
	}, s.Type == unix.TMPFS_MAGIC || uint32(s.Type) == unix.HUGETLBFS_MAGIC, nil
}
