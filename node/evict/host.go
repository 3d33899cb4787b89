package evict

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/node/cgroup"
)

// HostConfig configures a Host.
type HostConfig struct {
	// Root is a directory on the node's file system.
	Root string
	// ImageDirectory returns a directory on the file system of the images, empty or an error if
	// it is not known yet.
	ImageDirectory func(context.Context) (string, error)
	// Ceiling is the cgroup that limits the node's memory; without one the
	// machine's memory counts. Machine is the cgroup of the whole machine.
	Ceiling, Machine cgroup.MemoryCgroup
	// Pods returns the cgroup of all pods together; it may not exist yet.
	Pods func() cgroup.MemoryCgroup
	// Proc is /proc except in tests.
	Proc string
}

// Host measures what is left on this machine. It allocates nothing while nothing
// changes.
type Host struct {
	cfg     HostConfig
	meminfo *counters
	ceiling *memory
	pods    *memory
	// images is the directory of the images; separate reports whether it is on
	// another file system than the root directory.
	images   string
	separate bool
	// nodeMemory is the cgroup whose memory is the node's, and podsMemory the one
	// of the pods, at the last check, with the bytes that are not used at all.
	nodeMemory, podsMemory memoryHeadroom
	alarms                 *Notifier
	pids                   []*counters
}

// NewHost creates a Host. It opens only what exists.
func NewHost(cfg HostConfig) *Host {
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	h := &Host{cfg: cfg, meminfo: openCounters(filepath.Join(cfg.Proc, "meminfo"), "MemTotal:", "MemAvailable:",
		"MemFree:"), alarms: NewNotifier()}
	for _, file := range []string{"sys/kernel/pid_max", "sys/kernel/threads-max"} {
		h.pids = append(h.pids, openCounters(filepath.Join(cfg.Proc, file), ""))
	}
	if cfg.Ceiling.Directory != "" {
		h.ceiling = openMemory(cfg.Ceiling)
	}
	return h
}

// Memory sets the levels of memory.
func (h *Host) Memory(levels *Levels) {
	levels[MemoryAvailable], levels[AllocatableMemory] = Level{}, Level{}
	machine := Level{}
	h.nodeMemory, h.podsMemory = memoryHeadroom{at: h.cfg.Machine}, memoryHeadroom{}
	if values, err := h.meminfo.read(); err == nil {
		machine, h.nodeMemory.free = Level{Available: values[1] << 10, Capacity: values[0] << 10}, values[2]<<10
	}
	levels[MemoryAvailable] = machine
	if h.ceiling != nil {
		// The lower of both applies.
		if level, free, err := h.ceiling.level(); err == nil && level.Capacity > 0 &&
			(machine.Capacity == 0 || level.Available < machine.Available) {
			levels[MemoryAvailable], h.nodeMemory = level, memoryHeadroom{h.cfg.Ceiling, free}
		}
	}
	if h.pods == nil && h.cfg.Pods != nil {
		if c := h.cfg.Pods(); c.Directory != "" {
			h.pods = openMemory(c)
		}
	}
	if h.pods != nil {
		level, free, err := h.pods.level()
		if err != nil {
			h.pods.close() // created again, or removed
			h.pods = nil
			return
		}
		// A cgroup without a limit has the whole node.
		if level.Capacity > 0 && level.Capacity < levels[MemoryAvailable].Capacity {
			levels[AllocatableMemory], h.podsMemory = level, memoryHeadroom{h.pods.MemoryCgroup, free}
		}
	}
}

// Disk sets the levels of the file systems.
func (h *Host) Disk(levels *Levels) {
	levels[NodeFSAvailable], levels[NodeFSInodes] = statfs(h.cfg.Root)
	if h.images == "" && h.cfg.ImageDirectory != nil {
		ctx, cancel := context.WithTimeout(context.Background(), runtimeTimeout)
		h.images, _ = h.cfg.ImageDirectory(ctx) // the next check asks again
		cancel()
		h.separate = h.images != "" && !SameFS(h.images, h.cfg.Root)
	}
	levels[ImageFSAvailable], levels[ImageFSInodes] = Level{}, Level{}
	if h.images != "" {
		levels[ImageFSAvailable], levels[ImageFSInodes] = statfs(h.images)
	}
}

// Run monitors memory pressure until ctx ends. On cgroup v1 the notifications come
// from Arm.
func (h *Host) Run(ctx context.Context) error {
	defer h.alarms.Close()
	file := ""
	switch {
	case h.cfg.Ceiling.V2:
		file = filepath.Join(h.cfg.Ceiling.Directory, "memory.pressure")
	case h.cfg.Machine.V2 || h.cfg.Machine.Directory == "":
		file = filepath.Join(h.cfg.Proc, "pressure/memory")
	}
	if file != "" && h.alarms.WatchPressure(ctx, file) == nil {
		return nil
	}
	// Without notifications memory is checked more often.
	<-ctx.Done()
	return ctx.Err()
}

// C implements Alarm.
func (h *Host) C() <-chan struct{} { return h.alarms.C() }

// memoryHeadroom is a cgroup with the bytes that it can use before the kernel has
// to reclaim.
type memoryHeadroom struct {
	at   cgroup.MemoryCgroup
	free int64
}

// errUnreachableUsage: the kernel reports usage, which stays constant while it
// reclaims page cache.
var errUnreachableUsage = errors.New("memory usage cannot reach the threshold while the kernel reclaims page cache")

// Arm implements Alarm.
func (h *Host) Arm(s Signal, margin int64) error {
	of := h.nodeMemory
	if s == AllocatableMemory {
		of = h.podsMemory
	}
	// The kernel keeps a part free.
	if margin >= of.free-of.free/reserveDivisor {
		h.alarms.disarm(of.at.Directory)
		return errUnreachableUsage
	}
	return h.alarms.Arm(of.at, margin)
}

// reserveDivisor is the part of free memory that the kernel may keep free, as a
// divisor.
const reserveDivisor = 8

// SeparateImageFS reports whether images have a file system of their own.
func (h *Host) SeparateImageFS() bool { return h.separate }

// PIDs sets the level of process IDs.
func (h *Host) PIDs(levels *Levels) {
	levels[PIDAvailable] = Level{}
	total := int64(0)
	for _, limit := range h.pids {
		values, err := limit.read()
		if err == nil && (total == 0 || values[0] < total) {
			total = values[0]
		}
	}
	if used, err := h.processes(); err == nil && total > 0 {
		levels[PIDAvailable] = Level{Available: total - used, Capacity: total}
	}
}

// processes counts processes and threads, each of which has an ID. (sysinfo(2)
// counts to 65535.)
func (h *Host) processes() (int64, error) {
	data, err := os.ReadFile(filepath.Join(h.cfg.Proc, "loadavg"))
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(data, []byte("/"))
	text, _, _ := bytes.Cut(rest, []byte(" "))
	if !ok {
		return 0, errNoCounter
	}
	return strconv.ParseInt(string(text), 10, 64)
}

func statfs(dir string) (bytes, inodes Level) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Level{}, Level{}
	}
	return Level{Available: int64(s.Bavail) * int64(s.Bsize), Capacity: int64(s.Blocks) * int64(s.Bsize)},
		Level{Available: int64(s.Ffree), Capacity: int64(s.Files)}
}

// SameFS reports whether two paths exist on one file system.
func SameFS(a, b string) bool {
	var sa, sb unix.Stat_t
	return unix.Stat(a, &sa) == nil && unix.Stat(b, &sb) == nil && sa.Dev == sb.Dev
}

// memory is a memory cgroup with its files kept open.
type memory struct {
	cgroup.MemoryCgroup
	usage, limit, stat *counters
}

func openMemory(c cgroup.MemoryCgroup) *memory {
	m := &memory{MemoryCgroup: c}
	open := func(name string, fields ...string) *counters {
		return openCounters(filepath.Join(c.Directory, name), fields...)
	}
	if c.V2 {
		m.usage, m.limit = open("memory.current", ""), open("memory.max", "")
		m.stat = open("memory.stat", "inactive_file", "active_file")
	} else {
		m.usage, m.limit = open("memory.usage_in_bytes", ""), open("memory.limit_in_bytes", "")
		m.stat = open("memory.stat", "total_inactive_file", "total_active_file")
	}
	return m
}

func (m *memory) close() {
	m.usage.close()
	m.limit.close()
	m.stat.close()
}

// level returns what is left to the cgroup: its limit minus its usage without page
// cache, which the kernel reclaims before it kills, whether recently used or not.
// (The kubelet counts recently used pages, and so evicts pods of a node that has
// read many files, k/k#43916.) free is what is not used at all.
func (m *memory) level() (level Level, free int64, err error) {
	limit, err := m.limit.read()
	if err != nil {
		return Level{}, 0, err
	}
	capacity := limit[0]
	if capacity >= 1<<62 {
		return Level{}, 0, nil
	}
	usage, err := m.usage.read()
	if err != nil {
		return Level{}, 0, err
	}
	used := usage[0]
	files, err := m.stat.read()
	if err != nil {
		return Level{}, 0, err
	}
	return Level{Available: capacity - max(used-files[0]-files[1], 0), Capacity: capacity}, capacity - used, nil
}

// counters reads numbers from a kernel file that stays open.
type counters struct {
	path   string
	names  [][]byte
	values []int64
	file   *os.File
	buffer []byte
}

// openCounters is for lines that begin with the names; the name "" is the whole
// file.
func openCounters(path string, names ...string) *counters {
	c := &counters{path: path, values: make([]int64, len(names)), buffer: make([]byte, 8<<10)}
	for _, name := range names {
		c.names = append(c.names, []byte(name))
	}
	return c
}

var errNoCounter = errors.New("a number is missing")

// read returns the current values; "max" is a very large number. The slice is
// valid until the next call.
func (c *counters) read() ([]int64, error) {
	if c.file == nil {
		f, err := os.Open(c.path)
		if err != nil {
			return nil, err
		}
		c.file = f
	}
	n, err := c.file.ReadAt(c.buffer, 0)
	if n == 0 {
		c.close()
		return nil, fmt.Errorf("cannot read %s: %w", c.path, err)
	}
	found := 0
	for i := range c.values {
		c.values[i] = -1
	}
	for line := c.buffer[:n]; len(line) > 0 && found < len(c.names); {
		end := 0
		for end < len(line) && line[end] != '\n' {
			end++
		}
		for i, name := range c.names {
			if value, ok := number(line[:end], name); ok && c.values[i] < 0 {
				c.values[i] = value
				found++
			}
		}
		line = line[min(end+1, len(line)):]
	}
	if found < len(c.names) {
		return nil, fmt.Errorf("%s: %w", c.path, errNoCounter)
	}
	return c.values, nil
}

func (c *counters) close() {
	if c.file != nil {
		_ = c.file.Close()
		c.file = nil
	}
}

// number returns the number after a name and spaces.
func number(line, name []byte) (value int64, ok bool) {
	if len(line) < len(name) || string(line[:len(name)]) != string(name) {
		return 0, false
	}
	line = line[len(name):]
	if len(name) > 0 && (len(line) == 0 || line[0] != ' ') {
		return 0, false
	}
	for len(line) > 0 && line[0] == ' ' {
		line = line[1:]
	}
	if string(line) == "max" {
		return 1 << 62, true
	}
	digits := 0
	for ; digits < len(line) && line[digits] >= '0' && line[digits] <= '9'; digits++ {
		if value > (1<<62)/10 {
			return 1 << 62, true
		}
		value = value*10 + int64(line[digits]-'0')
	}
	return value, digits > 0
}
