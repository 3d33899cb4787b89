package evict

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Signal is a resource of the node that can run short.
type Signal uint8

// The signals in the order in which they are relieved: memory first, since the
// kernel kills without waiting.
const (
	MemoryAvailable Signal = iota
	AllocatableMemory
	NodeFSAvailable
	NodeFSInodes
	ImageFSAvailable
	ImageFSInodes
	PIDAvailable
	signalCount
)

// signals has the kubelet's name, condition and resource of each.
var signals = [signalCount]struct {
	name      string
	condition v1.NodeConditionType
	resource  v1.ResourceName
}{
	MemoryAvailable:   {"memory.available", v1.NodeMemoryPressure, v1.ResourceMemory},
	AllocatableMemory: {"allocatableMemory.available", v1.NodeMemoryPressure, v1.ResourceMemory},
	NodeFSAvailable:   {"nodefs.available", v1.NodeDiskPressure, v1.ResourceEphemeralStorage},
	NodeFSInodes:      {"nodefs.inodesFree", v1.NodeDiskPressure, "inodes"},
	ImageFSAvailable:  {"imagefs.available", v1.NodeDiskPressure, v1.ResourceEphemeralStorage},
	ImageFSInodes:     {"imagefs.inodesFree", v1.NodeDiskPressure, "inodes"},
	PIDAvailable:      {"pid.available", v1.NodePIDPressure, "pids"},
}

// String returns the kubelet's name.
func (s Signal) String() string { return signals[s].name }

// Condition returns the node condition of the signal.
func (s Signal) Condition() v1.NodeConditionType { return signals[s].condition }

// Resource returns the resource that is short.
func (s Signal) Resource() v1.ResourceName { return signals[s].resource }

func (s Signal) isMemory() bool { return s.Condition() == v1.NodeMemoryPressure }
func (s Signal) isDisk() bool   { return s.Condition() == v1.NodeDiskPressure }

// amount returns the part of a space that a signal of a disk counts.
func (s Signal) amount(space Space) int64 {
	if s.Resource() == v1.ResourceEphemeralStorage {
		return space.Bytes
	}
	return space.Inodes
}
func (s Signal) isImageFS() bool { return s == ImageFSAvailable || s == ImageFSInodes }

// signalNamed finds a signal that has thresholds of its own. Allocatable memory
// shares those of memory.
func signalNamed(name string) (Signal, bool) {
	for s := range signalCount {
		if s != AllocatableMemory && signals[s].name == name {
			return s, true
		}
	}
	return 0, false
}

// SignalNames returns the names of the signals that have thresholds of their own.
func SignalNames() []string {
	var names []string
	for s := range signalCount {
		if s != AllocatableMemory {
			names = append(names, signals[s].name)
		}
	}
	slices.Sort(names)
	return names
}

// Conditions are the node conditions that this package sets.
var Conditions = []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure}

// Level is what is left of a resource, in bytes, inodes or process IDs. It is
// unknown if Capacity is 0.
type Level struct{ Available, Capacity int64 }

// Levels are the levels of all signals.
type Levels [signalCount]Level
