package summary

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/usage"
)

// Input is the input of a summary. Without Disks and Traffic the summary has CPU
// and memory only.
type Input struct {
	NodeName string
	Node     *usage.Node
	Pods     *usage.Pods
	Disks    *usage.Disks
	// Claims are the volumes with a path of Disks.
	Claims  usage.ClaimVolumes
	Traffic map[types.UID][]usage.Interface
	// Pressure may be nil.
	Pressure *usage.Pressures
	// Specs are the pods; they name the claims of volumes.
	Specs []*v1.Pod
}

// Make returns a summary, with pods sorted by namespace and name.
func Make(in Input) *Summary {
	if in.Pressure == nil {
		in.Pressure = &usage.Pressures{}
	}
	s := &Summary{Node: nodeOf(in), Pods: make([]PodStats, 0, len(in.Pods.Pods))}
	specs := map[types.UID]*v1.Pod{}
	for _, pod := range in.Specs {
		specs[pod.UID] = pod
	}
	for i := range in.Pods.Pods {
		s.Pods = append(s.Pods, podOf(in, &in.Pods.Pods[i], specs))
	}
	slices.SortFunc(s.Pods, func(a, b PodStats) int {
		return cmp.Or(cmp.Compare(a.PodRef.Namespace, b.PodRef.Namespace), cmp.Compare(a.PodRef.Name, b.PodRef.Name))
	})
	return s
}

func nodeOf(in Input) NodeStats {
	n := in.Node
	node := NodeStats{
		NodeName: in.NodeName, StartTime: timestamp(n.BootedAt), CPU: cpuOf(&n.Usage), Memory: memoryOf(&n.Usage),
		Swap: swapOf(&n.Usage, n.SwapTotal),
		SystemContainers: []ContainerStats{
			{Name: "pods", StartTime: timestamp(n.BootedAt), CPU: cpuOf(&n.Pods), Memory: memoryOf(&n.Pods)},
			{Name: "kubelet", StartTime: timestamp(n.BootedAt), CPU: cpuOf(&n.Daemon), Memory: memoryOf(&n.Daemon)},
		},
	}
	for _, system := range []struct {
		name string
		*usage.Usage
	}{{"runtime", &n.Runtime}, {"misc", &n.Misc}} {
		if system.CPU != nil || system.Memory != nil {
			node.SystemContainers = append(node.SystemContainers, ContainerStats{
				Name: system.name, StartTime: timestamp(n.BootedAt), CPU: cpuOf(system.Usage), Memory: memoryOf(system.Usage),
			})
		}
	}
	node.IO = addPressure(in, n.At, in.Pressure.Node, node.CPU, node.Memory)
	pods := &node.SystemContainers[0]
	pods.IO = addPressure(in, n.Pods.At, in.Pressure.Pods, pods.CPU, pods.Memory)
	if in.Disks == nil {
		return node
	}
	node.Network = networkOf(n.At, n.Interfaces)
	node.Fs = fsOf(n.FS)
	if n.ImageFS != nil {
		node.Runtime = &RuntimeStats{ImageFs: fsOf(n.ImageFS), ContainerFs: fsOf(n.ContainerFS)}
	}
	if n.Processes != nil {
		node.Rlimit = &RlimitStats{Time: timestamp(n.At), MaxPID: &n.MaxProcesses, NumOfRunning: n.Processes}
	}
	return node
}

func podOf(in Input, pod *usage.Pod, specs map[types.UID]*v1.Pod) PodStats {
	p := PodStats{
		PodRef:    PodReference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)},
		StartTime: timestamp(pod.StartedAt), CPU: cpuOf(&pod.Usage), Memory: memoryOf(&pod.Usage),
		Swap:       swapOf(&pod.Usage, 0),
		Containers: make([]ContainerStats, 0, len(pod.Containers)),
	}
	if pod.Processes != nil {
		p.ProcessStats = &ProcessStats{pod.Processes}
	}
	p.IO = addPressure(in, pod.At, in.Pressure.ByPod[pod.UID], p.CPU, p.Memory)
	var disk *usage.PodDisk
	if in.Disks != nil {
		disk = in.Disks.Pods[pod.UID]
		p.Network = networkOf(pod.At, in.Traffic[pod.UID])
	}
	for i := range pod.Containers {
		one := containerOf(&pod.Containers[i], disk)
		one.IO = addPressure(in, pod.Containers[i].At, in.Pressure.ByContainer[pod.Containers[i].ID], one.CPU, one.Memory)
		p.Containers = append(p.Containers, one)
	}
	if disk == nil {
		return p
	}
	for i := range disk.Volumes {
		v := &disk.Volumes[i]
		one := VolumeStats{Name: v.Name}
		if v.Path == "" {
			one.FsStats = *fsOf(&v.Filesystem)
		} else if claim := in.Claims[v.Path]; claim != nil {
			one.FsStats = claimStats(claim)
		} else {
			continue // not measured yet
		}
		if claim := claimOf(specs[pod.UID], v.Name); claim != "" {
			one.PVCRef = &PVCReference{Name: claim, Namespace: pod.Namespace}
		}
		p.VolumeStats = append(p.VolumeStats, one)
	}
	used, inodes := disk.Ephemeral()
	ephemeral := usage.Filesystem{At: disk.At, Used: used, InodesUsed: inodes}
	if whole := in.Node.FS; whole != nil {
		ephemeral.Capacity, ephemeral.Available, ephemeral.Inodes, ephemeral.InodesFree = whole.Capacity, whole.Available,
			whole.Inodes, whole.InodesFree
	}
	p.EphemeralStorage = fsOf(&ephemeral)
	return p
}

func containerOf(c *usage.Container, disk *usage.PodDisk) ContainerStats {
	one := ContainerStats{Name: c.Name, StartTime: timestamp(c.CreatedAt), CPU: cpuOf(&c.Usage),
		Memory: memoryOf(&c.Usage),
		Swap:   swapOf(&c.Usage, 0)}
	if disk == nil {
		return one
	}
	for i := range disk.Containers {
		d := &disk.Containers[i]
		if d.ID == c.ID {
			one.Rootfs = fsOf(d.Rootfs)
		}
		// All instances of a container log into one directory.
		if d.Name == c.Name && d.Logs != nil {
			one.Logs = fsOf(d.Logs)
		}
	}
	return one
}

// addPressure adds the pressure on CPU and memory to their usage, which may be nil, and returns
// that on I/O; nil if it is not known, or if only CPU and memory are desired.
func addPressure(in Input, when time.Time, list []usage.Pressure, cpu *CPUStats, memory *MemoryStats) (io *IOStats) {
	for i := range list {
		p := &list[i]
		psi := &PSIStats{Full: psiOf(p.Full, p.FullAverages), Some: psiOf(p.Some, p.SomeAverages)}
		switch {
		case p.Resource == "cpu" && cpu != nil:
			cpu.PSI = psi
		case p.Resource == "memory" && memory != nil:
			memory.PSI = psi
		case p.Resource == "io" && in.Disks != nil:
			io = &IOStats{Time: timestamp(when), PSI: psi}
		}
	}
	return io
}

func psiOf(total time.Duration, averages [3]float64) PSIData {
	return PSIData{Total: uint64(total / time.Microsecond), Avg10: averages[0], Avg60: averages[1], Avg300: averages[2]}
}

// claimOf returns the claim of a volume, empty if it has none.
func claimOf(pod *v1.Pod, volume string) string {
	if pod == nil {
		return ""
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == volume {
			return podinfo.ClaimOf(pod, v)
		}
	}
	return ""
}

func cpuOf(u *usage.Usage) *CPUStats {
	if u.CPU == nil {
		return nil
	}
	total := uint64(u.CPU.Total)
	c := &CPUStats{Time: timestamp(u.At), UsageCoreNanoSeconds: &total}
	if u.CPU.Rate != nil {
		nano := uint64(*u.CPU.Rate * float64(time.Second))
		c.UsageNanoCores = &nano
	}
	return c
}

func memoryOf(u *usage.Usage) *MemoryStats {
	m := u.Memory
	if m == nil {
		return nil
	}
	working := m.WorkingSet()
	s := &MemoryStats{
		Time: timestamp(u.At), UsageBytes: &m.Usage, WorkingSetBytes: &working, RSSBytes: &m.RSS,
		PageFaults: &m.PageFaults, MajorPageFaults: &m.MajorPageFaults,
	}
	if m.Limit > 0 {
		available := m.Limit - min(working, m.Limit)
		s.AvailableBytes = &available
	}
	return s
}

// swapOf returns the used swap, and the available swap if total is known.
func swapOf(u *usage.Usage, total uint64) *SwapStats {
	if u.Memory == nil {
		return nil
	}
	s := &SwapStats{Time: timestamp(u.At), SwapUsageBytes: &u.Memory.Swap}
	if total > 0 {
		left := total - min(u.Memory.Swap, total)
		s.SwapAvailableBytes = &left
	}
	return s
}

func networkOf(when time.Time, list []usage.Interface) *NetworkStats {
	if len(list) == 0 {
		return nil
	}
	n := &NetworkStats{Time: timestamp(when)}
	for i := range list {
		f := &list[i]
		n.Interfaces = append(n.Interfaces,
			InterfaceStats{Name: f.Name, RxBytes: &f.RxBytes, RxErrors: &f.RxErrors, TxBytes: &f.TxBytes, TxErrors: &f.TxErrors})
	}
	n.InterfaceStats = n.Interfaces[0]
	return n
}

func fsOf(f *usage.Filesystem) *FsStats {
	if f == nil {
		return nil
	}
	return &FsStats{
		Time: timestamp(f.At), AvailableBytes: &f.Available, CapacityBytes: &f.Capacity, UsedBytes: &f.Used,
		InodesFree: &f.InodesFree, Inodes: &f.Inodes, InodesUsed: &f.InodesUsed,
	}
}

// claimStats returns the usage of a claim. What could not be counted in full is left out.
func claimStats(v *usage.ClaimVolume) FsStats {
	stats := *fsOf(&v.Filesystem)
	if v.Block {
		return FsStats{Time: stats.Time, CapacityBytes: stats.CapacityBytes}
	}
	if v.Incomplete {
		stats.UsedBytes, stats.InodesUsed = nil, nil
	}
	return stats
}

func timestamp(t time.Time) metav1.Time { return metav1.NewTime(t) }
