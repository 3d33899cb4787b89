package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/internal/usage"
)

// ContainerUsage returns the usage of all of this daemon's containers in one
// call. A value that the runtime did not measure is nil. If the runtime has no such call, the error is
// ErrUnimplemented.
func (c *Client) ContainerUsage(ctx context.Context) ([]usage.RuntimeContainer, error) {
	a, err := read(ctx, c, operation{verb: "get container stats"}, runtimeapi.RuntimeServiceClient.ListContainerStats,
		&runtimeapi.ListContainerStatsRequest{
			Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{LabelInstance: c.instance}}})
	if err != nil {
		return nil, err
	}
	list := make([]usage.RuntimeContainer, 0, len(a.GetStats()))
	for _, s := range a.GetStats() {
		list = append(list, usage.RuntimeContainer{
			ID: s.GetAttributes().GetId(), Usage: measured(s.GetCpu(), s.GetMemory()),
			Writable: filesystemUsage(s.GetWritableLayer()),
		})
	}
	return list, nil
}

// SandboxUsage is ContainerUsage for all of this daemon's sandboxes.
func (c *Client) SandboxUsage(ctx context.Context) ([]usage.RuntimeSandbox, error) {
	a, err := read(ctx, c, operation{verb: "get pod sandbox stats"}, runtimeapi.RuntimeServiceClient.ListPodSandboxStats,
		&runtimeapi.ListPodSandboxStatsRequest{
			Filter: &runtimeapi.PodSandboxStatsFilter{LabelSelector: map[string]string{LabelInstance: c.instance}}})
	if err != nil {
		return nil, err
	}
	list := make([]usage.RuntimeSandbox, 0, len(a.GetStats()))
	for _, s := range a.GetStats() {
		linux := s.GetLinux()
		one := usage.RuntimeSandbox{ID: s.GetAttributes().GetId(), Usage: measured(linux.GetCpu(), linux.GetMemory())}
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
			one.Interfaces = append(one.Interfaces, usage.Interface{
				Name: i.GetName(), RxBytes: i.GetRxBytes().GetValue(), RxErrors: i.GetRxErrors().GetValue(),
				TxBytes: i.GetTxBytes().GetValue(), TxErrors: i.GetTxErrors().GetValue(),
			})
		}
		list = append(list, one)
	}
	return list, nil
}

// ImageUsage returns the usage of the file systems of images and of the writable
// layers of containers. It is empty for a runtime that does not report it.
func (c *Client) ImageUsage(ctx context.Context) (images, containers []usage.RuntimeFilesystem, err error) {
	a, err := c.ImageFsInfo(ctx)
	if err != nil {
		return nil, nil, err
	}
	all := func(list []*runtimeapi.FilesystemUsage) (found []usage.RuntimeFilesystem) {
		for _, f := range list {
			if s := filesystemUsage(f); s != nil && s.Mount != "" {
				found = append(found, *s)
			}
		}
		return found
	}
	return all(a.GetImageFilesystems()), all(a.GetContainerFilesystems()), nil
}

// measured joins what the runtime measured. Its time is that of the CPU, which a rate needs.
func measured(cpu *runtimeapi.CpuUsage, memory *runtimeapi.MemoryUsage) (u usage.Usage) {
	if working := memory.GetWorkingSetBytes(); working != nil {
		used := max(memory.GetUsageBytes().GetValue(), working.Value)
		u.At = time.Unix(0, memory.Timestamp)
		u.Memory = &usage.Memory{
			Usage: used, InactiveFile: used - working.Value, RSS: memory.GetRssBytes().GetValue(),
			PageFaults: memory.GetPageFaults().GetValue(), MajorPageFaults: memory.GetMajorPageFaults().GetValue(),
		}
	}
	if total := cpu.GetUsageCoreNanoSeconds(); total != nil {
		u.At, u.CPU = time.Unix(0, cpu.Timestamp), &usage.CPU{Total: time.Duration(total.Value)}
	}
	return u
}

func filesystemUsage(u *runtimeapi.FilesystemUsage) *usage.RuntimeFilesystem {
	if u == nil {
		return nil
	}
	return &usage.RuntimeFilesystem{
		At: time.Unix(0, u.Timestamp), Mount: u.GetFsId().GetMountpoint(),
		Used: u.GetUsedBytes().GetValue(), Inodes: u.GetInodesUsed().GetValue(),
	}
}
