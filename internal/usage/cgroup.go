package usage

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Cgroup is what the kernel reports of a cgroup in addition to Usage. Values that the
// kernel does not report are nil.
type Cgroup struct {
	At time.Time
	// Path is the path of the cgroup below the mount point of its hierarchy.
	Path string
	IO   []DeviceIO
	// Burst is set on kernels with CPU bursts.
	Burst    *Burst
	Limits   Limits
	Memory   MemoryDetails
	Pressure []Pressure
	// Processes is nil for a cgroup whose processes are not examined.
	Processes *Processes
}

// Limits are the limits of a cgroup that are in force.
type Limits struct {
	CPU    *CPULimits
	Memory *MemoryLimits
	// Threads is the maximum number of processes and threads; 0 is no limit.
	Threads *uint64
}

// CPULimits are the quota per period, both in microseconds, and the shares, to which a
// weight of cgroup v2 is converted. Quota is 0 without a limit.
type CPULimits struct{ Period, Quota, Shares uint64 }

// MemoryLimits are in bytes; 0 is none.
type MemoryLimits struct {
	Limit uint64
	// SwapLimit includes memory in cgroup v1 and does not in v2, as the kernel has it.
	SwapLimit uint64
	// Reservation is the soft limit of cgroup v1, memory.min of v2.
	Reservation uint64
}

// Burst counts the periods with a CPU burst and their duration.
type Burst struct {
	Periods uint64
	Time    time.Duration
}

// MemoryDetails are in bytes, and counts since the creation of the cgroup.
type MemoryDetails struct {
	ActiveFile, InactiveFile *uint64
	// Kernel is the memory of the kernel for this cgroup.
	Kernel *uint64
	// LimitHits counts how often usage reached the limit, OOMKills the processes that the
	// kernel killed for lack of memory.
	LimitHits, OOMKills *uint64
}

// Pressure is the time that processes waited for a resource (PSI): some of them, and all
// of them at once.
type Pressure struct {
	// Resource is cpu, memory or io.
	Resource   string
	Some, Full time.Duration
	// SomeAverages and FullAverages are the parts of the last 10, 60 and 300 seconds, in
	// percent.
	SomeAverages, FullAverages [3]float64
}

// Pressures are the pressure of the node, of all pods together, and of each pod and container.
// Each list has an entry per resource; it is empty if the kernel does not report any.
type Pressures struct {
	Node, Pods []Pressure
	ByPod      map[types.UID][]Pressure
	// ByContainer is by the ID of the container.
	ByContainer map[string][]Pressure
}

// Processes are those directly in a cgroup.
type Processes struct {
	Count uint64
	// FileDescriptors and Sockets are nil if there are too many to count.
	FileDescriptors, Sockets *uint64
	// MaxOpenFiles is the soft limit of the first process; -1 is no limit, nil unknown.
	MaxOpenFiles *int64
}

// DeviceIO is what a cgroup read from and wrote to one block device since its
// creation.
type DeviceIO struct {
	// Device is MAJOR:MINOR.
	Device                string
	ReadBytes, WriteBytes uint64
	ReadOps, WriteOps     uint64
	// Cost is set on devices with a cost model (io.cost).
	Cost *IOCost
}

// IOCost is the time that a cost model accounts for the I/O of a cgroup.
type IOCost struct{ Usage, Wait, Debt, Delay time.Duration }

// Device is a block device of the node with its counters since the boot, and the file
// system that is mounted from it.
type Device struct {
	// Name is the path of the device, such as /dev/sda1.
	Name string
	Filesystem
	// IO is nil for a device without counters.
	IO *DiskCounters
}

// DiskCounters are the counters of a block device.
type DiskCounters struct {
	Reads, ReadsMerged, SectorsRead      uint64
	Writes, WritesMerged, SectorsWritten uint64
	ReadTime, WriteTime, Time, Weighted  time.Duration
	InProgress                           uint64
}

// Details is what the kernel reports of the node and its cgroups in addition to Node and
// Pods. It is shared: callers must not modify it.
type Details struct {
	// Node is the root of all cgroups, Pods the cgroup of all pods; nil if it does not
	// exist.
	Node, Pods *Cgroup
	// ByID has the cgroups of pods by UID, those of running containers and of sandboxes by
	// ID.
	ByID map[string]*Cgroup
	// Sandboxes has the usage of sandboxes themselves by ID.
	Sandboxes map[string]Usage
	// Devices are the block devices with a mounted file system.
	Devices []Device
}
