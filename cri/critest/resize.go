package critest

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SetMemory sets the working set in a container's stats, in bytes.
func (f *Fake) SetMemory(name string, bytes uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.script.memory == nil {
		f.script.memory = map[string]uint64{}
	}
	f.script.memory[name] = bytes
}

// UpdateContainerResources takes what is not 0 into the container's config.
func (s *runtimeServer) UpdateContainerResources(_ context.Context,
	r *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.containers[r.ContainerId]
	switch {
	case c == nil:
		return nil, noContainer(r.ContainerId)
	case !c.running():
		return nil, status.Error(codes.Unknown, "container is not running")
	}
	f.record.touched(c.sandbox, "UpdateContainerResources")
	c.config = proto.Clone(c.config).(*runtimeapi.ContainerConfig)
	if c.config.Linux == nil {
		c.config.Linux = &runtimeapi.LinuxContainerConfig{}
	}
	if c.config.Linux.Resources == nil {
		c.config.Linux.Resources = &runtimeapi.LinuxContainerResources{}
	}
	proto.Merge(c.config.Linux.Resources, r.Linux) // leaves what is 0
	f.changed.Notify()
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

func (s *runtimeServer) ContainerStats(_ context.Context,
	r *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.containers[r.ContainerId]
	if c == nil {
		return nil, noContainer(r.ContainerId)
	}
	return &runtimeapi.ContainerStatsResponse{Stats: &runtimeapi.ContainerStats{
		Memory: &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: f.script.memory[c.containerName()]}},
	}}, nil
}
