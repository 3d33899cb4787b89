package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/internal/cgroupvalues"
)

// ResourcePID is the resource name of reserved process IDs.
const ResourcePID v1.ResourceName = "pid"

// reservable are the resources that can be reserved.
var reservable = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, ResourcePID}

// ParseReserved parses the reserved resources.
func ParseReserved(list map[string]string) (v1.ResourceList, error) {
	reserved := v1.ResourceList{}
	for name, text := range list {
		if !slices.Contains(reservable, v1.ResourceName(name)) {
			return nil, fmt.Errorf("%q cannot be reserved; cpu, memory, ephemeral-storage and pid can", name)
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil || quantity.Sign() < 0 {
			return nil, fmt.Errorf("%s=%q is not a quantity; use one such as 500m or 1Gi", name, text)
		}
		reserved[v1.ResourceName(name)] = quantity
	}
	return reserved, nil
}

// Capacity returns the machine's CPUs, memory, hugepages and process IDs.
func Capacity() v1.ResourceList {
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI)}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		list[v1.ResourceMemory] = *resource.NewQuantity(int64(info.Totalram)*int64(info.Unit), resource.BinarySI)
	}
	if data, err := os.ReadFile("/proc/sys/kernel/pid_max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil {
			list[ResourcePID] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	for name, quantity := range hugePages(hugePagesDirectory) {
		list[name] = quantity
	}
	return list
}

// Allocatable returns a capacity minus the reserved resources, at least 0.
// Hugepages are subtracted from memory, as the kernel does.
func Allocatable(capacity v1.ResourceList, reserved ...v1.ResourceList) v1.ResourceList {
	left := v1.ResourceList{}
	for name, quantity := range capacity {
		q := quantity.DeepCopy()
		for _, list := range reserved {
			if r, ok := list[name]; ok {
				q.Sub(r)
			}
		}
		for page, pages := range capacity {
			if name == v1.ResourceMemory && strings.HasPrefix(string(page), v1.ResourceHugePagesPrefix) {
				q.Sub(pages)
			}
		}
		if q.Sign() < 0 {
			q = *resource.NewQuantity(0, q.Format)
		}
		left[name] = q
	}
	return left
}

// nodeLimits returns the values of the root. Shares are always set: they weigh
// pods against the rest of the host.
func (o *Options) nodeLimits() limits {
	cpu := o.Allocatable[v1.ResourceCPU]
	l := limits{shares: cgroupvalues.CPUShares(cpu.MilliValue())}
	if !o.EnforceAllocatable {
		l.memory, l.pids = noLimit, noLimit
		return l
	}
	memory, pids := o.Allocatable[v1.ResourceMemory], o.Allocatable[ResourcePID]
	l.memory, l.pids = memory.Value(), pids.Value()
	return l
}

// DetectSettings reads the cgroup version, swap accounting and hugepage sizes.
// Without cgroups it returns the zero value.
func DetectSettings() cgroupvalues.Settings {
	var s cgroupvalues.Settings
	if h, err := findHierarchies(mountinfoFile); err == nil && h.v2() {
		s.V2, s.SwapLimit = true, h.swapLimit()
	}
	s.PageSizes = pageSizes(hugePagesDirectory)
	return s
}

// swapLimit reports whether the kernel has swap accounting: the root cgroup has no such file, but
// its children have.
func (h *hierarchies) swapLimit() bool {
	if !h.v2() {
		return false
	}
	matches, _ := filepath.Glob(filepath.Join(h.unified, "*", "memory.swap.max"))
	return len(matches) > 0
}

// hugePagesDirectory has a subdirectory for each hugepage size.
const hugePagesDirectory = "/sys/kernel/mm/hugepages"

// hugePages returns the bytes in hugepages by resource name, for each size that
// the kernel supports.
func hugePages(dir string) v1.ResourceList {
	list := v1.ResourceList{}
	for _, size := range pageSizes(dir) {
		bytes := resource.MustParse(size)
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("hugepages-%dkB", bytes.Value()>>10), "nr_hugepages"))
		n, errN := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && errN == nil {
			list[v1.ResourceName(v1.ResourceHugePagesPrefix+size)] = *resource.NewQuantity(n*bytes.Value(), resource.BinarySI)
		}
	}
	return list
}

// pageSizes returns the hugepage sizes as in resource names.
func pageSizes(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var sizes []string
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), "hugepages-")
		kb, err := strconv.ParseInt(strings.TrimSuffix(text, "kB"), 10, 64)
		if !ok || err != nil || kb <= 0 {
			continue
		}
		sizes = append(sizes, resource.NewQuantity(kb<<10, resource.BinarySI).String())
	}
	return sizes
}
