package stats

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/node/cgroup"
)

// Memory is what is used of memory.
type Memory = cgroup.Memory

// CPU is what is used of processors: since the start, and now.
type CPU struct {
	cgroup.CPU
	// Rate is in cores, over the last seconds; nil before the second
	// measurement.
	Rate *float64
	// Window is the time that Rate is the mean of.
	Window time.Duration
}

// Usage is what something uses. What cannot be measured is nil.
type Usage struct {
	At        time.Time
	CPU       *CPU
	Memory    *Memory
	Processes *uint64
}

// WorkingSet is that of the memory in bytes, 0 if it is not known.
func (u *Usage) WorkingSet() uint64 {
	if u.Memory == nil {
		return 0
	}
	return u.Memory.WorkingSet()
}

// FS is a file system or a part of one, in bytes and inodes.
type FS struct {
	At time.Time
	// Capacity, Available, Inodes and InodesFree are those of the whole file
	// system. Available is what anybody but root may still use.
	Capacity, Available uint64
	Inodes, InodesFree  uint64
	// Used and InodesUsed are of that part.
	Used, InodesUsed uint64
}

// Interface is what went through a network interface since it was made.
type Interface struct {
	Name                                    string
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
}

// Container is what a running container uses.
type Container struct {
	Name, ID  string
	CreatedAt time.Time
	Usage
}

// Pod is what a pod uses. Its own figures are those of its containers and its
// sandbox together.
type Pod struct {
	UID             types.UID
	Name, Namespace string
	// StartedAt is when its sandbox was made, SandboxID that sandbox.
	StartedAt  time.Time
	SandboxID  string
	Containers []Container
	Usage
}

// Pods are what all pods that run use, in no order. They are shared and must
// not be written to.
type Pods struct {
	At   time.Time
	Pods []Pod
	// Missing is how many containers could not be measured.
	Missing int
}

// Get is what a pod uses, nil if it does not run.
func (p *Pods) Get(uid types.UID) *Pod {
	for i := range p.Pods {
		if p.Pods[i].UID == uid {
			return &p.Pods[i]
		}
	}
	return nil
}

// Node is what the node uses. It is shared and must not be written to.
type Node struct {
	// Usage is of all that runs on it. The memory's Limit is what it has.
	Usage
	// MemoryAvailable is what is left of its memory: what it has without the
	// working set, as Kubernetes counts.
	MemoryAvailable uint64
	SwapTotal       uint64
	// MaxProcesses is how many processes and threads there can be.
	MaxProcesses uint64
	// Pods is what all pods use together, Daemon what this process does.
	Pods, Daemon Usage
	// FS is that of the root folder, ImageFS that of the images and
	// ContainerFS that of what containers write. The latter two are nil if
	// the runtime does not tell, and have Used and InodesUsed of its own.
	FS, ImageFS, ContainerFS *FS
	Interfaces               []Interface
	BootedAt                 time.Time
}

// Volume is what a volume of a pod holds.
type Volume struct {
	Name string
	// Plugin is the kubelet's name of its kind, such as kubernetes.io~empty-dir.
	Plugin string
	// Memory: it lies in memory, and counts as such.
	Memory bool
	// Ephemeral: it lies on the node's disk and ends with the pod.
	Ephemeral bool
	FS
}

// ContainerDisk is what a container holds on disk. What is not known is nil.
type ContainerDisk struct {
	Name, ID     string
	Rootfs, Logs *FS
}

// PodDisk is what a pod holds on disk.
type PodDisk struct {
	UID        types.UID
	At         time.Time
	Containers []ContainerDisk
	Volumes    []Volume
	// Incomplete: some of it was too much to count.
	Incomplete bool
}

// Ephemeral is what the pod uses of the node's own storage: what its containers
// wrote, printed, and put into volumes that end with it.
func (d *PodDisk) Ephemeral() (used, inodes uint64) {
	add := func(f *FS) {
		if f != nil {
			used, inodes = used+f.Used, inodes+f.InodesUsed
		}
	}
	for i := range d.Containers {
		add(d.Containers[i].Rootfs)
		add(d.Containers[i].Logs)
	}
	for i := range d.Volumes {
		if d.Volumes[i].Ephemeral {
			add(&d.Volumes[i].FS)
		}
	}
	return used, inodes
}

// Disks are what all pods hold on disk, by UID. They are shared and must not be
// written to.
type Disks struct {
	At   time.Time
	Pods map[types.UID]*PodDisk
}
