package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// MemoryCgroup is the directory in which the kernel counts the memory of a cgroup.
type MemoryCgroup struct {
	// Directory is the cgroup's own directory; empty if there is none.
	Directory string
	// V2 reports that it is in the unified hierarchy.
	V2 bool
}

// Limit returns the memory limit in bytes, 0 if there is none.
func (c MemoryCgroup) Limit() int64 {
	file := "memory.limit_in_bytes"
	if c.V2 {
		file = "memory.max"
	}
	data, err := os.ReadFile(filepath.Join(c.Directory, file))
	if c.Directory == "" || err != nil {
		return 0
	}
	// "max" is not a number, and v1 has its largest number instead.
	n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	if err != nil || n >= 1<<62 {
		return 0
	}
	return n
}

// PodsMemory returns the memory cgroup of all pods, with the driver that created
// it. It is empty while it does not exist.
func PodsMemory(root string) MemoryCgroup {
	h, err := findHierarchies(mountinfoFile)
	if err != nil {
		return MemoryCgroup{}
	}
	for _, driver := range []Driver{Systemd, Cgroupfs} {
		if c := h.memoryOf(driver.path(rootName(root))); c.Directory != "" {
			return c
		}
	}
	return MemoryCgroup{}
}

// MachineMemory returns the memory cgroup of the whole machine, or of the
// container that this process is in.
func MachineMemory() MemoryCgroup {
	h, err := findHierarchies(mountinfoFile)
	if err != nil {
		return MemoryCgroup{}
	}
	return h.memoryOf("/")
}

// Ceiling returns the cgroup above the root of all pods with the lowest memory
// limit, and that limit in bytes. It is empty, and 0, if no cgroup above has a
// limit; then the node has the memory of the machine.
func Ceiling(root string) (MemoryCgroup, int64) {
	h, err := findHierarchies(mountinfoFile)
	if err != nil {
		return MemoryCgroup{}, 0
	}
	return h.ceiling(root)
}

func (h *hierarchies) ceiling(root string) (lowest MemoryCgroup, limit int64) {
	name := rootName(root)
	for _, driver := range []Driver{Cgroupfs, Systemd} {
		for n := range len(name) {
			c := h.memoryOf(driver.path(name[:n]))
			if l := c.Limit(); l > 0 && (limit == 0 || l < limit) {
				lowest, limit = c, l
			}
		}
	}
	return lowest, limit
}

func (h *hierarchies) memoryOf(path string) MemoryCgroup {
	dir := h.directory(controllerMemory, path)
	if dir == "" || !isDirectory(dir) {
		return MemoryCgroup{}
	}
	return MemoryCgroup{Directory: dir, V2: h.v2()}
}

// lowerMemory reduces the memory of a capacity to a ceiling in bytes; 0 is no
// ceiling.
func lowerMemory(capacity v1.ResourceList, ceiling int64) {
	if has, ok := capacity[v1.ResourceMemory]; ceiling > 0 && (!ok || has.Value() > ceiling) {
		capacity[v1.ResourceMemory] = *resource.NewQuantity(ceiling, resource.BinarySI)
	}
}

// NodeCapacity returns what the machine has, as far as the cgroups above the root
// of all pods allow: podstead in a slice of 1 GiB has a node of that size.
func NodeCapacity(root string) v1.ResourceList {
	list := Capacity()
	_, ceiling := Ceiling(root)
	lowerMemory(list, ceiling)
	return list
}
