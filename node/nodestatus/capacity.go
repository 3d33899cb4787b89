package nodestatus

import (
	"slices"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/node/cgroup"
)

// Resources computes the capacity and the allocatable resources of the node.
type Resources struct {
	// CgroupRoot is the path of the cgroup of all pods: a cgroup above it may
	// limit the node's memory.
	CgroupRoot string
	// Root is the daemon's root directory. Its file system is the one that the
	// files of containers fill.
	Root string
	// MaxPods returns the maximum number of pods for a number of CPUs.
	MaxPods func(cpus int) int
	// Reserved is not available to pods. HardEviction returns what the hard
	// eviction thresholds keep of a capacity.
	Reserved     []v1.ResourceList
	HardEviction func(capacity v1.ResourceList) v1.ResourceList
}

// Capacity returns what the node has.
func (r Resources) Capacity() v1.ResourceList {
	list := cgroup.NodeCapacity(r.CgroupRoot)
	cpus := list[v1.ResourceCPU]
	list[v1.ResourcePods] = *resource.NewQuantity(int64(r.MaxPods(int(cpus.Value()))), resource.DecimalSI)
	var fs unix.Statfs_t
	if err := unix.Statfs(r.Root, &fs); err == nil {
		list[v1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(fs.Blocks)*int64(fs.Bsize), resource.BinarySI)
	}
	return list
}

// Allocatable returns what pods can use of the capacity: what is not reserved and
// would not cause an eviction at once.
func (r Resources) Allocatable() v1.ResourceList {
	capacity := r.Capacity()
	return cgroup.Allocatable(capacity, append(slices.Clone(r.Reserved), r.HardEviction(capacity))...)
}

// APIResources returns resources as a v1.Node has them. The API has no process IDs.
// It changes the list.
func APIResources(list v1.ResourceList) v1.ResourceList {
	delete(list, cgroup.ResourcePID)
	return list
}
