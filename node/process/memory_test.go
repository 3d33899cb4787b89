package process

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct{ machine, cgroup, want int64 }{
		"unknown machine": {0, 0, 128 * mib},
		"small machine":   {512 * mib, 0, 128 * mib},
		"machine":         {1400 * mib, 0, 140 * mib},
		"large machine":   {64000 * mib, 0, 144 * mib},
		"low cgroup":      {64000 * mib, 100 * mib, 90 * mib},
		"high cgroup":     {4000 * mib, 1000 * mib, 144 * mib},
	} {
		if got := memoryLimit(c.machine, c.cgroup); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestLimitMemory(t *testing.T) {
	before, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	defer func() { debug.SetMemoryLimit(before); debug.SetGCPercent(percent) }()
	for value, limited := range map[string]bool{"3GiB": false, "": true} {
		// Go itself reads the variable when a process starts.
		t.Setenv("GOMEMLIMIT", value)
		debug.SetMemoryLimit(math.MaxInt64)
		LimitMemory()
		if got := debug.SetMemoryLimit(-1); (got <= mostMemoryLimit) != limited {
			t.Errorf("GOMEMLIMIT %q: limit %d, want one: %v", value, got, limited)
		}
	}
}
