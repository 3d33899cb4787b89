package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/podstead/podstead/internal/usage"
)

// Reader reads the usage of cgroups. It has no state except for the location of
// the hierarchies.
type Reader struct{ h *hierarchies }

// OpenReader finds the hierarchies in a mountinfo file; empty stands for that of
// this process.
func OpenReader(mountinfo string) (*Reader, error) {
	if mountinfo == "" {
		mountinfo = mountinfoFile
	}
	h, err := findHierarchies(mountinfo)
	if err != nil {
		return nil, err
	}
	return &Reader{h}, nil
}

// V2 reports whether the controllers are in the unified hierarchy.
func (r *Reader) V2() bool { return r.h.v2() }

// SwapLimit reports whether the kernel can limit the swap of a cgroup (v2 only).
func (r *Reader) SwapLimit() bool { return r.h.swapLimit() }

// CPUSet reports whether the kernel can bind containers to CPUs.
func (r *Reader) CPUSet() bool {
	if !r.h.v2() {
		return r.h.cpuset
	}
	data, _ := os.ReadFile(filepath.Join(r.h.unified, "cgroup.controllers"))
	return slices.Contains(strings.Fields(string(data)), "cpuset")
}

// Path returns the path of a cgroup_parent.
func Path(parent string) string { return cgroupPath(parent) }

// RootPaths returns the paths that the cgroup of all pods can have.
func RootPaths(root string) []string {
	if root == "" {
		root = DefaultRoot
	}
	name := rootName(root)
	return []string{Cgroupfs.path(name), Systemd.path(name)}
}

// Exists reports whether a cgroup exists.
func (r *Reader) Exists(path string) bool { return isDirectory(r.directory(controllerMemory, path)) }

// directory returns the directory of a controller, empty if its hierarchy is
// missing.
func (r *Reader) directory(controller, path string) string { return r.h.directory(controller, path) }

// Usage reads the usage of a cgroup. It sets no time. A missing cgroup is
// fs.ErrNotExist.
func (r *Reader) Usage(path string) (usage.Usage, error) {
	var u usage.Usage
	var err error
	if u.Memory, err = r.Memory(path); err != nil {
		return usage.Usage{}, err
	}
	if u.CPU, err = r.cpu(path); err != nil {
		return usage.Usage{}, err
	}
	if u.Processes, err = optional(readNumber(r.directory(controllerPids, path), "pids.current")); err != nil {
		return usage.Usage{}, err
	}
	if u == (usage.Usage{}) {
		return usage.Usage{}, fmt.Errorf("cgroup %s: %w", path, fs.ErrNotExist)
	}
	return u, nil
}

// Memory reads the memory usage of a cgroup; nil without an error means that this
// machine does not count it.
func (r *Reader) Memory(path string) (*usage.Memory, error) {
	return MemoryCgroup{Directory: r.directory(controllerMemory, path), V2: r.h.v2()}.Usage()
}

// Usage reads the memory usage; nil without an error means that the cgroup does
// not exist.
func (c MemoryCgroup) Usage() (*usage.Memory, error) {
	dir := c.Directory
	if dir == "" {
		return nil, nil
	}
	f := memoryFilesV1
	if c.V2 {
		f = memoryFilesV2
	}
	used, err := optional(readNumber(dir, f.usage))
	if used == nil || err != nil {
		return nil, err
	}
	m := &usage.Memory{Usage: *used}
	err = readFields(dir, "memory.stat", func(name string, n uint64) {
		switch name {
		case f.inactive:
			m.InactiveFile = n
		case f.rss:
			m.RSS = n
		case f.cache:
			m.Cache = n
		case f.mapped:
			m.MappedFile = n
		case f.swap:
			m.Swap = n
		case f.faults:
			m.PageFaults = n
		case f.majorFaults:
			m.MajorPageFaults = n
		}
	})
	if err != nil {
		return nil, ignoreGone(err)
	}
	if c.V2 {
		m.Swap, _ = readNumber(dir, "memory.swap.current") // missing without swap accounting
	}
	// "max" is not a number, and v1 has its largest number instead.
	if limit, err := readNumber(dir, f.limit); err == nil && limit < 1<<62 {
		m.Limit = limit
	}
	m.Peak, _ = readNumber(dir, f.peak) // Linux 5.19 in version 2
	return m, nil
}

// memoryFiles are the kernel's names.
type memoryFiles struct {
	usage, limit, peak                                      string
	inactive, rss, cache, mapped, swap, faults, majorFaults string
}

var (
	memoryFilesV1 = memoryFiles{
		usage: usageFiles[false].usage, limit: "memory.limit_in_bytes", peak: "memory.max_usage_in_bytes",
		inactive: usageFiles[false].inactive, rss: "total_rss", cache: "total_cache", mapped: "total_mapped_file",
		swap: "total_swap", faults: "total_pgfault", majorFaults: "total_pgmajfault",
	}
	memoryFilesV2 = memoryFiles{
		usage: usageFiles[true].usage, limit: "memory.max", peak: "memory.peak",
		inactive: usageFiles[true].inactive, rss: "anon", cache: "file", mapped: "file_mapped",
		faults: "pgfault", majorFaults: "pgmajfault",
	}
)

// userHZ is the unit of cpuacct.stat, the same on all platforms of Go.
const userHZ = 100

// cpu returns nil without an error if this machine does not count CPU time.
func (r *Reader) cpu(path string) (*usage.CPU, error) {
	c := &usage.CPU{}
	if r.h.v2() {
		err := readFields(r.directory(controllerCPU, path), "cpu.stat", func(name string, n uint64) {
			micro := time.Duration(n) * time.Microsecond
			switch name {
			case "usage_usec":
				c.Total = micro
			case "user_usec":
				c.User = micro
			case "system_usec":
				c.System = micro
			case "nr_periods":
				c.Periods = n
			case "nr_throttled":
				c.Throttled = n
			case "throttled_usec":
				c.ThrottledTime = micro
			}
		})
		if err != nil {
			return nil, ignoreGone(err)
		}
		return c, nil
	}
	dir := r.directory(controllerCPUAcct, path)
	total, err := optional(readNumber(dir, "cpuacct.usage"))
	if total == nil || err != nil {
		return nil, err
	}
	c.Total = time.Duration(*total)
	// The details below do not exist on every kernel.
	_ = readFields(dir, "cpuacct.stat", func(name string, n uint64) {
		switch name {
		case "user":
			c.User = time.Duration(n) * time.Second / userHZ
		case "system":
			c.System = time.Duration(n) * time.Second / userHZ
		}
	})
	_ = readFields(r.directory(controllerCPU, path), "cpu.stat", func(name string, n uint64) {
		switch name {
		case "nr_periods":
			c.Periods = n
		case "nr_throttled":
			c.Throttled = n
		case "throttled_time":
			c.ThrottledTime = time.Duration(n)
		}
	})
	return c, nil
}

// FirstProcess returns a process of a cgroup, 0 if it has none of its own.
func (r *Reader) FirstProcess(path string) int {
	if pids := r.Processes(path); len(pids) > 0 {
		return pids[0]
	}
	return 0
}

// buffers for the files of cgroups; no file is larger.
var buffers = sync.Pool{New: func() any { return new([8 << 10]byte) }}

// readFile reads a cgroup file with three system calls: a scrape of many pods
// reads thousands of files. data is only valid during use.
func readFile(dir, file string, use func(data []byte) error) error {
	if dir == "" {
		return fs.ErrNotExist
	}
	path := dir + "/" + file
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	buffer := buffers.Get().(*[8 << 10]byte)
	defer buffers.Put(buffer)
	n, err := syscall.Read(fd, buffer[:])
	_ = syscall.Close(fd)
	if err != nil {
		return &os.PathError{Op: "read", Path: path, Err: err}
	}
	if err := use(buffer[:n]); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readNumber reads a file with one number.
func readNumber(dir, file string) (n uint64, err error) {
	err = readFile(dir, file, func(data []byte) error {
		n, err = strconv.ParseUint(string(bytes.TrimSpace(data)), 10, 64)
		return err
	})
	return n, err
}

// readFields reads a file of lines with a name and a number.
func readFields(dir, file string, field func(name string, n uint64)) error {
	return readFile(dir, file, func(data []byte) error {
		for line := range strings.Lines(string(data)) {
			name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			if n, err := strconv.ParseUint(text, 10, 64); err == nil {
				field(name, n)
			}
		}
		return nil
	})
}

// optional returns nil for a missing value: the cgroup was just removed, or the
// machine does not count it.
func optional(n uint64, err error) (*uint64, error) {
	if err != nil {
		return nil, ignoreGone(err)
	}
	return &n, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}
