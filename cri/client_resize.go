package cri

import (
	"context"
	"errors"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// UpdateContainerResources changes the resources of a running container. A value
// that is 0 or empty is not changed.
func (c *Client) UpdateContainerResources(ctx context.Context, id string,
	to *runtimeapi.LinuxContainerResources) error {
	_, err := write(ctx, c, operation{"change the resources of container", id}, c.timeout,
		runtimeapi.RuntimeServiceClient.UpdateContainerResources,
		&runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: to})
	return err
}

// SetCPUs sets the CPUs of a running container, as the kernel's list.
func (c *Client) SetCPUs(ctx context.Context, id, cpus string) error {
	return c.UpdateContainerResources(ctx, id, &runtimeapi.LinuxContainerResources{CpusetCpus: cpus})
}

// MemoryUsage returns the working set of a running container in bytes: the memory
// that the kernel cannot reclaim from it.
func (c *Client) MemoryUsage(ctx context.Context, id string) (int64, error) {
	a, err := read(ctx, c, operation{"get the memory usage of container", id},
		runtimeapi.RuntimeServiceClient.ContainerStats,
		&runtimeapi.ContainerStatsRequest{ContainerId: id})
	if err != nil {
		return 0, err
	}
	memory := a.GetStats().GetMemory()
	if memory.GetWorkingSetBytes() == nil {
		return 0, errors.New("the runtime does not report the container's memory usage")
	}
	return int64(memory.WorkingSetBytes.Value), nil
}
