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

// ResourcePID is the name by which process IDs are reserved.
const ResourcePID v1.ResourceName = "pid"

// reservable are the resources that can be kept from pods.
var reservable = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, ResourcePID}

// ParseReserved checks what is to be kept from pods, by resource.
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

// Capacity is what the machine has: cpu, memory, hugepages and process IDs.
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

// Allocatable is what is left of a capacity after what is reserved; never less
// than nothing. Hugepages are taken out of the memory, as by the kernel.
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

// nodeLimits are the root's values. Shares are set in any case: they are how
// pods stand against the rest of the host.
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

// DetectSettings reads the machine's cgroup version, swap accounting and
// hugepage sizes. Without cgroups it is the zero value.
func DetectSettings() cgroupvalues.Settings {
	var s cgroupvalues.Settings
	if h, err := findHierarchies(mountinfoFile); err == nil && h.v2() {
		s.V2 = true
		// The root has no such file; what is there says that the kernel does.
		matches, _ := filepath.Glob(filepath.Join(h.unified, "*", "memory.swap.max"))
		s.SwapLimit = len(matches) > 0
	}
	s.PageSizes = pageSizes(hugePagesDirectory)
	return s
}

// hugePagesFolder has a folder for each size of hugepages.
const hugePagesDirectory = "/sys/kernel/mm/hugepages"

// hugePages are the bytes in hugepages by their resource, of each size that the
// kernel has.
func hugePages(folder string) v1.ResourceList {
	list := v1.ResourceList{}
	for _, size := range pageSizes(folder) {
		bytes := resource.MustParse(size)
		text, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("hugepages-%dkB", bytes.Value()>>10), "nr_hugepages"))
		n, errN := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && errN == nil {
			list[v1.ResourceName(v1.ResourceHugePagesPrefix+size)] = *resource.NewQuantity(n*bytes.Value(), resource.BinarySI)
		}
	}
	return list
}

// pageSizes are the sizes of hugepages, as in the names of resources.
func pageSizes(folder string) []string {
	entries, err := os.ReadDir(folder)
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
