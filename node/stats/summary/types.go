package summary

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Summary is the response: the node and all running pods. As at the kubelet, unknown
// values are left out.
type Summary struct {
	Node NodeStats  `json:"node"`
	Pods []PodStats `json:"pods"`
}

// NodeStats is the usage of the node.
type NodeStats struct {
	NodeName string `json:"nodeName"`
	// SystemContainers are "pods", all pods together, "kubelet", which is this daemon,
	// "runtime", the container runtime, and "misc", all other processes of the node.
	SystemContainers []ContainerStats `json:"systemContainers,omitempty"`
	StartTime        metav1.Time      `json:"startTime"`
	CPU              *CPUStats        `json:"cpu,omitempty"`
	Memory           *MemoryStats     `json:"memory,omitempty"`
	Network          *NetworkStats    `json:"network,omitempty"`
	Fs               *FsStats         `json:"fs,omitempty"`
	Runtime          *RuntimeStats    `json:"runtime,omitempty"`
	Rlimit           *RlimitStats     `json:"rlimit,omitempty"`
	Swap             *SwapStats       `json:"swap,omitempty"`
	IO               *IOStats         `json:"io,omitempty"`
}

// RuntimeStats are the file systems of images and of what containers write.
type RuntimeStats struct {
	ImageFs     *FsStats `json:"imageFs,omitempty"`
	ContainerFs *FsStats `json:"containerFs,omitempty"`
}

// RlimitStats are the processes and threads of the node.
type RlimitStats struct {
	Time         metav1.Time `json:"time"`
	MaxPID       *uint64     `json:"maxpid,omitempty"`
	NumOfRunning *uint64     `json:"curproc,omitempty"`
}

// PodStats is the usage of a pod.
type PodStats struct {
	PodRef           PodReference     `json:"podRef"`
	StartTime        metav1.Time      `json:"startTime"`
	Containers       []ContainerStats `json:"containers"`
	CPU              *CPUStats        `json:"cpu,omitempty"`
	Memory           *MemoryStats     `json:"memory,omitempty"`
	Network          *NetworkStats    `json:"network,omitempty"`
	VolumeStats      []VolumeStats    `json:"volume,omitempty"`
	EphemeralStorage *FsStats         `json:"ephemeral-storage,omitempty"`
	ProcessStats     *ProcessStats    `json:"process_stats,omitempty"`
	Swap             *SwapStats       `json:"swap,omitempty"`
	IO               *IOStats         `json:"io,omitempty"`
}

// PodReference names a pod.
type PodReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

// ProcessStats are a pod's processes and threads.
type ProcessStats struct {
	ProcessCount *uint64 `json:"process_count,omitempty"`
}

// ContainerStats is the usage of a container.
type ContainerStats struct {
	Name      string       `json:"name"`
	StartTime metav1.Time  `json:"startTime"`
	CPU       *CPUStats    `json:"cpu,omitempty"`
	Memory    *MemoryStats `json:"memory,omitempty"`
	Rootfs    *FsStats     `json:"rootfs,omitempty"`
	Logs      *FsStats     `json:"logs,omitempty"`
	Swap      *SwapStats   `json:"swap,omitempty"`
	IO        *IOStats     `json:"io,omitempty"`
}

// PSIStats is the pressure on a resource: the time in which some processes waited for it, and
// in which all of them did.
type PSIStats struct {
	Full PSIData `json:"full"`
	Some PSIData `json:"some"`
}

// PSIData is a total in microseconds, and the parts of the last 10, 60 and 300 seconds in
// percent.
type PSIData struct {
	Total  uint64  `json:"total"`
	Avg10  float64 `json:"avg10"`
	Avg60  float64 `json:"avg60"`
	Avg300 float64 `json:"avg300"`
}

// IOStats is the pressure on I/O.
type IOStats struct {
	Time metav1.Time `json:"time"`
	PSI  *PSIStats   `json:"psi,omitempty"`
}

// CPUStats is CPU usage: the current rate in nanocores, and the total in
// core-nanoseconds.
type CPUStats struct {
	Time                 metav1.Time `json:"time"`
	UsageNanoCores       *uint64     `json:"usageNanoCores,omitempty"`
	UsageCoreNanoSeconds *uint64     `json:"usageCoreNanoSeconds,omitempty"`
	PSI                  *PSIStats   `json:"psi,omitempty"`
}

// MemoryStats is memory usage. AvailableBytes is set if there is a limit.
type MemoryStats struct {
	Time            metav1.Time `json:"time"`
	AvailableBytes  *uint64     `json:"availableBytes,omitempty"`
	UsageBytes      *uint64     `json:"usageBytes,omitempty"`
	WorkingSetBytes *uint64     `json:"workingSetBytes,omitempty"`
	RSSBytes        *uint64     `json:"rssBytes,omitempty"`
	PageFaults      *uint64     `json:"pageFaults,omitempty"`
	MajorPageFaults *uint64     `json:"majorPageFaults,omitempty"`
	PSI             *PSIStats   `json:"psi,omitempty"`
}

// SwapStats is swap usage.
type SwapStats struct {
	Time               metav1.Time `json:"time"`
	SwapAvailableBytes *uint64     `json:"swapAvailableBytes,omitempty"`
	SwapUsageBytes     *uint64     `json:"swapUsageBytes,omitempty"`
}

// NetworkStats is the traffic of the interfaces; the fields next to the list are
// those of the first one.
type NetworkStats struct {
	Time           metav1.Time `json:"time"`
	InterfaceStats `json:",inline"`
	Interfaces     []InterfaceStats `json:"interfaces,omitempty"`
}

// InterfaceStats is the traffic of one interface.
type InterfaceStats struct {
	Name     string  `json:"name"`
	RxBytes  *uint64 `json:"rxBytes,omitempty"`
	RxErrors *uint64 `json:"rxErrors,omitempty"`
	TxBytes  *uint64 `json:"txBytes,omitempty"`
	TxErrors *uint64 `json:"txErrors,omitempty"`
}

// FsStats is a file system, or what is used of one by a part.
type FsStats struct {
	Time           metav1.Time `json:"time"`
	AvailableBytes *uint64     `json:"availableBytes,omitempty"`
	CapacityBytes  *uint64     `json:"capacityBytes,omitempty"`
	UsedBytes      *uint64     `json:"usedBytes,omitempty"`
	InodesFree     *uint64     `json:"inodesFree,omitempty"`
	Inodes         *uint64     `json:"inodes,omitempty"`
	InodesUsed     *uint64     `json:"inodesUsed,omitempty"`
}

// VolumeStats is what a volume holds.
type VolumeStats struct {
	FsStats `json:",inline"`
	Name    string        `json:"name,omitempty"`
	PVCRef  *PVCReference `json:"pvcRef,omitempty"`
}

// PVCReference names a PersistentVolumeClaim.
type PVCReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}
