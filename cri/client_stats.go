package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerStats is what the runtime measured of a container. A value that it did
// not measure is nil.
type ContainerStats struct {
	ID     string
	CPU    *CPUStats
	Memory *MemoryStats
	// Writable is what the container wrote to its root file system.
	Writable *FilesystemStats
}

// SandboxStats is what the runtime measured of a sandbox with everything that
// runs in it. A value that it did not measure is nil.
type SandboxStats struct {
	ID         string
	CPU        *CPUStats
	Memory     *MemoryStats
	Processes  *uint64
	Interfaces []InterfaceStats
}

// CPUStats is the CPU time used since the start.
type CPUStats struct {
	At    time.Time
	Total time.Duration
}

// MemoryStats is the memory usage in bytes, with the page faults since the start.
type MemoryStats struct {
	At                          time.Time
	Usage, WorkingSet, RSS      uint64
	PageFaults, MajorPageFaults uint64
}

// FilesystemStats is the usage, in bytes and inodes, of the file system that is
// mounted at Mount.
type FilesystemStats struct {
	At           time.Time
	Mount        string
	Used, Inodes uint64
}

// InterfaceStats counts the traffic of a network interface in bytes, and its
// errors.
type InterfaceStats struct {
	Name                                 string
	RxBytes, RxErrors, TxBytes, TxErrors uint64
}

// ContainerStats returns the stats of all of this daemon's containers in one
// call. If the runtime has no such call, the error is ErrUnimplemented.
func (c *Client) ContainerStats(ctx context.Context) ([]ContainerStats, error) {
	a, err := read(ctx, c, operation{verb: "get container stats"}, runtimeapi.RuntimeServiceClient.ListContainerStats,
		&runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{LabelInstance: c.instance}}})
	if err != nil {
		return nil, err
	}
	list := make([]ContainerStats, 0, len(a.GetStats()))
	for _, s := range a.GetStats() {
		list = append(list, ContainerStats{
			ID: s.GetAttributes().GetId(), CPU: cpuStats(s.GetCpu()), Memory: memoryStats(s.GetMemory()),
			Writable: filesystemStats(s.GetWritableLayer()),
		})
	}
	return list, nil
}

// SandboxStats is ContainerStats for all of this daemon's sandboxes.
func (c *Client) SandboxStats(ctx context.Context) ([]SandboxStats, error) {
	a, err := read(ctx, c, operation{verb: "get pod sandbox stats"}, runtimeapi.RuntimeServiceClient.ListPodSandboxStats,
		&runtimeapi.ListPodSandboxStatsRequest{Filter: &runtimeapi.PodSandboxStatsFilter{LabelSelector: map[string]string{LabelInstance: c.instance}}})
	if err != nil {
		return nil, err
	}
	list := make([]SandboxStats, 0, len(a.GetStats()))
	for _, s := range a.GetStats() {
		linux := s.GetLinux()
		one := SandboxStats{ID: s.GetAttributes().GetId(), CPU: cpuStats(linux.GetCpu()), Memory: memoryStats(linux.GetMemory())}
		if count := linux.GetProcess().GetProcessCount(); count != nil {
			one.Processes = &count.Value
		}
		// containerd lists the default interface among the others too.
		interfaces := linux.GetNetwork().GetInterfaces()
		if first := linux.GetNetwork().GetDefaultInterface(); first != nil {
			interfaces = append([]*runtimeapi.NetworkInterfaceUsage{first}, interfaces...)
		}
		seen := map[string]bool{}
		for _, i := range interfaces {
			if seen[i.GetName()] {
				continue
			}
			seen[i.GetName()] = true
			one.Interfaces = append(one.Interfaces, InterfaceStats{
				i.GetName(), i.GetRxBytes().GetValue(), i.GetRxErrors().GetValue(), i.GetTxBytes().GetValue(), i.GetTxErrors().GetValue(),
			})
		}
		list = append(list, one)
	}
	return list, nil
}

// ImageStats returns the usage of the file systems of images and of the writable
// layers of containers. It is empty for a runtime that does not report it.
func (c *Client) ImageStats(ctx context.Context) (images, containers []FilesystemStats, err error) {
	a, err := c.ImageFsInfo(ctx)
	if err != nil {
		return nil, nil, err
	}
	all := func(list []*runtimeapi.FilesystemUsage) (stats []FilesystemStats) {
		for _, f := range list {
			if s := filesystemStats(f); s != nil && s.Mount != "" {
				stats = append(stats, *s)
			}
		}
		return stats
	}
	return all(a.GetImageFilesystems()), all(a.GetContainerFilesystems()), nil
}

func cpuStats(u *runtimeapi.CpuUsage) *CPUStats {
	if u.GetUsageCoreNanoSeconds() == nil {
		return nil
	}
	return &CPUStats{At: time.Unix(0, u.Timestamp), Total: time.Duration(u.UsageCoreNanoSeconds.Value)}
}

func memoryStats(u *runtimeapi.MemoryUsage) *MemoryStats {
	if u.GetWorkingSetBytes() == nil {
		return nil
	}
	return &MemoryStats{
		At: time.Unix(0, u.Timestamp), WorkingSet: u.WorkingSetBytes.Value,
		Usage: max(u.GetUsageBytes().GetValue(), u.WorkingSetBytes.Value), RSS: u.GetRssBytes().GetValue(),
		PageFaults: u.GetPageFaults().GetValue(), MajorPageFaults: u.GetMajorPageFaults().GetValue(),
	}
}

func filesystemStats(u *runtimeapi.FilesystemUsage) *FilesystemStats {
	if u == nil {
		return nil
	}
	return &FilesystemStats{
		At: time.Unix(0, u.Timestamp), Mount: u.GetFsId().GetMountpoint(),
		Used: u.GetUsedBytes().GetValue(), Inodes: u.GetInodesUsed().GetValue(),
	}
}
