package cri

import (
	"context"
	"errors"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// UpdateContainerResources changes the resources of a running container. What
// is 0 or empty stays as it is.
func (c *Client) UpdateContainerResources(ctx context.Context, id string, to *runtimeapi.LinuxContainerResources) error {
	_, err := write(ctx, c, operation{"change the resources of container", id}, c.timeout, runtimeapi.RuntimeServiceClient.UpdateContainerResources,
		&runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: to})
	return err
}

// MemoryUsage is how much memory a running container cannot do without, in
// bytes: its working set.
func (c *Client) MemoryUsage(ctx context.Context, id string) (int64, error) {
	a, err := read(ctx, c, operation{"ask for the memory of container", id}, runtimeapi.RuntimeServiceClient.ContainerStats,
		&runtimeapi.ContainerStatsRequest{ContainerId: id})
	if err != nil {
		return 0, err
	}
	memory := a.GetStats().GetMemory()
	if memory.GetWorkingSetBytes() == nil {
		return 0, errors.New("the runtime does not tell how much memory the container uses")
	}
	return int64(memory.WorkingSetBytes.Value), nil
}
