package usage

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Container is the usage of a running container.
type Container struct {
	Name, ID  string
	CreatedAt time.Time
	Usage
}

// Pod is the usage of a pod: of its containers and its sandbox together.
type Pod struct {
	UID             types.UID
	Name, Namespace string
	// StartedAt is the creation time of the sandbox SandboxID.
	StartedAt  time.Time
	SandboxID  string
	Containers []Container
	Usage
}

// Pods is the usage of all running pods, in no order. It is shared: callers must
// not modify it.
type Pods struct {
	At   time.Time
	Pods []Pod
	// Missing counts the containers that could not be measured.
	Missing int
}

// Get returns the usage of a pod, nil if the pod does not run.
func (p *Pods) Get(uid types.UID) *Pod {
	for i := range p.Pods {
		if p.Pods[i].UID == uid {
			return &p.Pods[i]
		}
	}
	return nil
}

// Node is the usage of the node. It is shared: callers must not modify it.
type Node struct {
	// Usage covers everything that runs on the node. The memory's Limit is the
	// node's capacity.
	Usage
	// MemoryAvailable is the capacity without the working set, as Kubernetes
	// counts it.
	MemoryAvailable uint64
	SwapTotal       uint64
	// MaxProcesses limits the number of processes and threads.
	MaxProcesses uint64
	// Pods is the usage of all pods together, Daemon that of this process, Runtime that of
	// the container runtime with its helpers, and Misc that of all other processes.
	Pods, Daemon, Runtime, Misc Usage
	// FS is the file system of the root directory, ImageFS that of the images and
	// ContainerFS that of the containers' writable layers. The latter two are nil
	// if the runtime does not report them; their Used and InodesUsed are the
	// runtime's.
	FS, ImageFS, ContainerFS *Filesystem
	Interfaces               []Interface
	BootedAt                 time.Time
}

// Volume is the content of a volume of a pod.
type Volume struct {
	Name string
	// Plugin is the kubelet's name of the volume type, such as
	// kubernetes.io~empty-dir.
	Plugin string
	// Memory reports whether the volume is in memory, and so counts as memory.
	Memory bool
	// Ephemeral reports whether the volume is on the node's disk and is removed
	// with the pod.
	Ephemeral bool
	// Path is where the volume of a claim or a network file system is, which is measured apart
	// from the pod (ClaimVolumes); its Filesystem is empty here.
	Path string
	Filesystem
}

// ContainerDisk is the disk usage of a container. Unknown values are nil.
type ContainerDisk struct {
	Name, ID     string
	Rootfs, Logs *Filesystem
}

// PodDisk is the disk usage of a pod.
type PodDisk struct {
	UID        types.UID
	At         time.Time
	Containers []ContainerDisk
	Volumes    []Volume
	// Files are the files of the pod's directory that containers can write to: its
	// /etc/hosts and the termination messages; nil if it has none.
	Files *Filesystem
	// Incomplete reports that some directories were too large to count.
	Incomplete bool
}

// Ephemeral returns what the pod uses of the node's ephemeral storage: writable
// layers, logs, its files, and volumes that are removed with the pod.
func (d *PodDisk) Ephemeral() (bytes, inodes uint64) {
	add := func(f *Filesystem) {
		if f != nil {
			bytes, inodes = bytes+f.Used, inodes+f.InodesUsed
		}
	}
	add(d.Files)
	for i := range d.Containers {
		add(d.Containers[i].Rootfs)
		add(d.Containers[i].Logs)
	}
	for i := range d.Volumes {
		if d.Volumes[i].Ephemeral {
			add(&d.Volumes[i].Filesystem)
		}
	}
	return bytes, inodes
}

// Disks is the disk usage of all pods, by UID. It is shared: callers must not
// modify it.
type Disks struct {
	At   time.Time
	Pods map[types.UID]*PodDisk
}

// SumContainers sets the pod's own usage to the sum of its containers.
func (p *Pod) SumContainers() {
	for i := range p.Containers {
		u := &p.Containers[i].Usage
		if u.At.After(p.At) {
			p.At = u.At
		}
		if u.CPU != nil {
			if p.CPU == nil {
				p.CPU = &CPU{}
			}
			p.CPU.Total += u.CPU.Total
			p.CPU.User += u.CPU.User
			p.CPU.System += u.CPU.System
		}
		if m := u.Memory; m != nil {
			if p.Memory == nil {
				p.Memory = &Memory{}
			}
			p.Memory.Usage += m.Usage
			p.Memory.InactiveFile += m.InactiveFile
			p.Memory.RSS += m.RSS
			p.Memory.Cache += m.Cache
			p.Memory.MappedFile += m.MappedFile
			p.Memory.Swap += m.Swap
			p.Memory.PageFaults += m.PageFaults
			p.Memory.MajorPageFaults += m.MajorPageFaults
		}
		if u.Processes != nil {
			n := *u.Processes
			if p.Processes != nil {
				n += *p.Processes
			}
			p.Processes = &n
		}
	}
}
