package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
)

// heapGrowth is the garbage collector's goal in percent, half of Go's own. The
// daemon hardly allocates once pods run, so that a smaller heap costs nothing.
const heapGrowth = 50

// tameMemory keeps the heap small, unless GOGC says otherwise.
func tameMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}

// ownOOMScore is the kubelet's own oomScoreAdj: the kernel shall end a pod
// before what restarts it.
const ownOOMScore = "-999"

// protectFromOOM lowers this process's score. A host that does not allow it
// gets a warning and a daemon all the same.
func protectFromOOM(log *slog.Logger) {
	err := os.WriteFile("/proc/self/oom_score_adj", []byte(ownOOMScore), 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		log.Warn("may not lower oom_score_adj (no CAP_SYS_RESOURCE): under memory pressure the kernel may end podstead before a pod; containers would go on")
	case err != nil:
		log.Warn("cannot lower oom_score_adj", "error", err)
	}
}
