package usage

import "time"

// CPU is CPU time since the start of a cgroup or process, with the current rate.
type CPU struct {
	Total, User, System time.Duration
	// Periods counts the periods that ran under a quota, Throttled those of them
	// in which the quota stopped the processes, for ThrottledTime in total.
	Periods, Throttled uint64
	ThrottledTime      time.Duration
	// Rate is in cores, averaged over Window; nil before the second measurement.
	Rate   *float64
	Window time.Duration
}

// Memory is memory usage in bytes.
type Memory struct {
	Usage uint64
	// InactiveFile is the part of Usage that the kernel can reclaim at once.
	InactiveFile uint64
	// RSS is anonymous memory, Cache the page cache, MappedFile the mapped part
	// of the page cache.
	RSS, Cache, MappedFile, Swap uint64
	// PageFaults and MajorPageFaults count since the start.
	PageFaults, MajorPageFaults uint64
	// Limit is 0 without a limit.
	Limit uint64
	// Peak is the highest usage so far, 0 if the kernel does not report it.
	Peak uint64
}

// WorkingSet returns the bytes that the kernel cannot reclaim at once. Kubernetes
// evicts by this figure.
func (m Memory) WorkingSet() uint64 {
	if m.InactiveFile > m.Usage {
		return 0
	}
	return m.Usage - m.InactiveFile
}

// Usage is one measurement of CPU, memory and processes. Values that cannot be
// measured are nil.
type Usage struct {
	At     time.Time
	CPU    *CPU
	Memory *Memory
	// Processes counts processes and threads.
	Processes *uint64
}

// WorkingSet returns the memory working set in bytes, 0 if it is unknown.
func (u *Usage) WorkingSet() uint64 {
	if u.Memory == nil {
		return 0
	}
	return u.Memory.WorkingSet()
}

// Filesystem is the usage of a file system or of a part of one, in bytes and
// inodes.
type Filesystem struct {
	At time.Time
	// Capacity, Available, Inodes and InodesFree refer to the whole file system.
	// Available excludes the blocks that are reserved for root.
	Capacity, Available uint64
	Inodes, InodesFree  uint64
	// Used and InodesUsed refer to the measured part.
	Used, InodesUsed uint64
}

// SetTotals copies the values of the whole file system.
func (f *Filesystem) SetTotals(whole Filesystem) {
	f.Capacity, f.Available = whole.Capacity, whole.Available
	f.Inodes, f.InodesFree = whole.Inodes, whole.InodesFree
}

// Interface is the traffic of a network interface since its creation.
type Interface struct {
	Name                                    string
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
}
