package process

import (
	"os"
	"runtime/debug"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/node/cgroup"
)

// gcPercent is the garbage collector's goal, half of Go's default. The daemon
// hardly allocates once pods run, so a smaller heap costs nothing.
const gcPercent = 50

// The limits of the memory that Go takes before it collects garbage harder, in bytes. The
// daemon needs far less than the least, and at most SECURITY.md's 200 MB with the code that
// is mapped, whatever a tenant of a cluster makes it read.
const (
	leastMemoryLimit = 128 << 20
	mostMemoryLimit  = 144 << 20
)

// LimitMemory keeps the heap small, unless GOGC is set, and the daemon's memory, unless
// GOMEMLIMIT is set: the OOM killer takes pods before the daemon, so they must not pay
// for garbage.
func LimitMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		capacity := cgroup.Capacity()[v1.ResourceMemory]
		debug.SetMemoryLimit(memoryLimit(capacity.Value(), cgroup.OwnMemoryLimit()))
	}
}

// LimitMemoryTo keeps the heap small, and the memory below a soft limit in bytes.
func LimitMemoryTo(limit int64) {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(limit)
}

// memoryLimit returns Go's soft limit in bytes: a tenth of the machine's memory within
// bounds, and less than the limit of the daemon's cgroup. An argument of 0 is unknown
// or no limit.
func memoryLimit(machine, cgroupLimit int64) int64 {
	limit := min(max(machine/10, leastMemoryLimit), mostMemoryLimit)
	if cgroupLimit > 0 {
		limit = min(limit, cgroupLimit/10*9)
	}
	return limit
}
