package evict

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/podstead/podstead/node/cgroup"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		// Written in place: the kernel's files keep their inodes.
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func cgroupFiles(v2 bool, limit string, usage, inactive, active int64) map[string]string {
	if v2 {
		return map[string]string{
			"memory.current": fmt.Sprintln(usage), "memory.max": limit + "\n",
			"memory.stat": fmt.Sprintf("anon 5\ninactive_file_x 7\ninactive_file %d\nactive_file %d\n", inactive, active),
		}
	}
	return map[string]string{
		"memory.usage_in_bytes": fmt.Sprintln(usage), "memory.limit_in_bytes": limit + "\n",
		"memory.stat": fmt.Sprintf("inactive_file 1\nactive_file 1\ntotal_inactive_file %d\ntotal_active_file %d\n", inactive,
			active),
	}
}

// Available memory, from the kernel's files of both cgroup versions.
func TestHostMemory(t *testing.T) {
	for name, c := range map[string]struct {
		v2            bool
		ceiling, pods map[string]string
		node, alloc   Level
	}{
		"the machine": {node: Level{8000 << 10, 10000 << 10}},
		"a slice of v1": {
			ceiling: cgroupFiles(false, "1000000", 700000, 100000, 50000), node: Level{450000, 1000000},
		},
		"a slice of v2": {
			v2: true, ceiling: cgroupFiles(true, "1000000", 700000, 100000, 50000), node: Level{450000, 1000000},
		},
		"a slice with more than the machine has left": {
			ceiling: cgroupFiles(false, "9000000", 1, 0, 0), node: Level{8000 << 10, 10000 << 10},
		},
		"pods with less": {
			v2: true, pods: cgroupFiles(true, "500000", 400000, 0, 0), node: Level{8000 << 10, 10000 << 10},
			alloc: Level{100000, 500000},
		},
		"pods without a limit": {
			pods: cgroupFiles(false, "9223372036854771712", 400000, 0, 0), node: Level{8000 << 10, 10000 << 10},
		},
		"pods with a limit of max": {
			v2: true, pods: cgroupFiles(true, "max", 400000, 0, 0), node: Level{8000 << 10, 10000 << 10},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"proc/meminfo": "MemTotal:       10000 kB\nMemFree:         10 kB\nMemAvailable:  " +
				"  8000 kB\n"})
			cfg := HostConfig{Root: dir, Proc: filepath.Join(dir, "proc")}
			if c.ceiling != nil {
				write(t, filepath.Join(dir, "slice"), c.ceiling)
				cfg.Ceiling = cgroup.MemoryCgroup{Directory: filepath.Join(dir, "slice"), V2: c.v2}
			}
			if c.pods != nil {
				write(t, filepath.Join(dir, "pods"), c.pods)
				cfg.Pods = func() cgroup.MemoryCgroup {
					return cgroup.MemoryCgroup{Directory: filepath.Join(dir, "pods"), V2: c.v2}
				}
			}
			h := NewHost(cfg)
			var levels Levels
			h.Memory(&levels)
			if levels[MemoryAvailable] != c.node || levels[AllocatableMemory] != c.alloc {
				t.Errorf("node %v, pods %v, want %v, %v", levels[MemoryAvailable], levels[AllocatableMemory], c.node, c.alloc)
			}
			// An idle scan makes no allocation.
			if n := testing.AllocsPerRun(10, func() { h.Memory(&levels) }); n != 0 {
				t.Errorf("a scan makes %v allocations", n)
			}
			if c.pods == nil {
				return
			}
			// The cgroup of all pods is removed and created again.
			if err := os.RemoveAll(filepath.Join(dir, "pods")); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "pods"), cgroupFiles(c.v2, "300000", 1, 0, 0))
			h.pods.close()
			h.Memory(&levels)
			if levels[AllocatableMemory].Capacity != 300000 {
				t.Errorf("pods %v after their cgroup was created again", levels[AllocatableMemory])
			}
		})
	}
}

// The kernel notifies of usage, which does not rise while it reclaims page
// cache: then memory has to be scanned.
func TestAlarmThatWouldNotRing(t *testing.T) {
	for name, c := range map[string]struct {
		ceiling map[string]string
		margin  int64
		rings   bool
	}{
		"little memory is free":       {margin: 200 << 10},
		"enough is":                   {margin: 80 << 10, rings: true},
		"the cgroup is full of files": {ceiling: cgroupFiles(false, "1000000", 900000, 700000, 0), margin: 200000},
		"it has room":                 {ceiling: cgroupFiles(false, "1000000", 500000, 0, 0), margin: 200000, rings: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"proc/meminfo": "MemTotal:       10000 kB\nMemFree:         100 kB\nMemAvailable: " +
				"   8000 kB\n"})
			write(t, filepath.Join(dir, "machine"), cgroupFiles(false, "9223372036854771712", 5000<<10, 0, 0))
			cfg := HostConfig{Root: dir, Proc: filepath.Join(dir, "proc"),
				Machine: cgroup.MemoryCgroup{Directory: filepath.Join(dir, "machine")}}
			if c.ceiling != nil {
				write(t, filepath.Join(dir, "slice"), c.ceiling)
				cfg.Ceiling = cgroup.MemoryCgroup{Directory: filepath.Join(dir, "slice")}
			}
			h := NewHost(cfg)
			var levels Levels
			h.Memory(&levels)
			err := h.Arm(MemoryAvailable, c.margin)
			if rings := err == nil; rings != c.rings {
				t.Errorf("%v", err)
			}
			if c.rings {
				dir := filepath.Join(dir, map[bool]string{true: "slice", false: "machine"}[c.ceiling != nil])
				asked, err := os.ReadFile(filepath.Join(dir, "cgroup.event_control"))
				var event, file, at int64
				if _, scanErr := fmt.Sscan(string(asked), &event, &file, &at); err != nil || scanErr != nil || at <= 0 {
					t.Errorf("the kernel got %q (%v, %v)", asked, err, scanErr)
				}
			}
			h.alarms.Close()
			if err := h.Arm(MemoryAvailable, 1); !errors.Is(err, os.ErrClosed) {
				t.Errorf("armed after the end: %v", err)
			}
		})
	}
}

func TestHostDisk(t *testing.T) {
	dir := t.TempDir()
	where := ""
	h := NewHost(HostConfig{Root: dir, ImageDirectory: func(context.Context) (string, error) { return where, nil }})
	var levels Levels
	h.Disk(&levels)
	if l := levels[NodeFSAvailable]; l.Available <= 0 || l.Capacity < l.Available ||
		levels[ImageFSAvailable].Capacity != 0 {
		t.Errorf("%v", levels)
	}
	where = dir
	h.Disk(&levels)
	if levels[ImageFSAvailable] != levels[NodeFSAvailable] || h.SeparateImageFS() {
		t.Errorf("one file system is counted as two: %v", levels)
	}
	if n := testing.AllocsPerRun(10, func() { h.Disk(&levels) }); n > 4 {
		t.Errorf("a scan makes %v allocations", n) // a path each for the system calls
	}
	proc := NewHost(HostConfig{Root: dir, ImageDirectory: func(context.Context) (string, error) { return "/proc", nil }})
	proc.Disk(&levels)
	if !proc.SeparateImageFS() {
		t.Error("two file systems are counted as one")
	}
}

func TestHostPIDs(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"sys/kernel/pid_max": "4194304\n", "sys/kernel/threads-max": "100000\n",
		"loadavg": "0.10 0.20 0.30 3/70000 12345\n"})
	var levels Levels
	NewHost(HostConfig{Proc: dir}).PIDs(&levels)
	if l := levels[PIDAvailable]; l != (Level{Available: 30000, Capacity: 100000}) {
		t.Errorf("%v", l)
	}
}

func TestNumber(t *testing.T) {
	for line, want := range map[string]int64{"x 5": 5, "x     17 kB": 17, "x max": 1 << 62,
		"x 9223372036854771712": 1 << 62} {
		if got, ok := number([]byte(line), []byte("x")); !ok || got != want {
			t.Errorf("%q is %d, %v", line, got, ok)
		}
	}
	for _, line := range []string{"xy 5", "x", "y 5", "x -"} {
		if got, ok := number([]byte(line), []byte("x")); ok {
			t.Errorf("%q is %d", line, got)
		}
	}
}
