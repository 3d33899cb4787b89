package cgroup

import (
	"os"
	"path"
	"strings"
)

// OwnMemoryLimit returns the lowest memory limit, in bytes, of the cgroups that this
// process is in; 0 if there is none.
func OwnMemoryLimit() int64 {
	h, err := findHierarchies(mountinfoFile)
	if err != nil {
		return 0
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	return h.ownMemoryLimit(string(text))
}

// ownMemoryLimit reads the cgroups of a process: "5:memory:/path" in v1, "0::/path" in v2.
func (h *hierarchies) ownMemoryLimit(text string) (lowest int64) {
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, own, ok := strings.Cut(rest, ":")
		if !ok || h.v2() != (controllers == "") || !h.v2() && controllers != controllerMemory {
			continue
		}
		// The root has a limit where it is that of a container.
		for at := path.Clean("/" + own); ; at = path.Dir(at) {
			if limit := h.memoryOf(at).Limit(); limit > 0 && (lowest == 0 || limit < lowest) {
				lowest = limit
			}
			if at == "/" {
				break
			}
		}
	}
	return lowest
}
