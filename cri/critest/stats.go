package critest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Stats are what a container uses. Mount is the mount point that the runtime
// reports for its writable layer, by default /var/lib/critest.
type Stats struct {
	CPU                     time.Duration
	Memory, Written, Inodes uint64
	Mount                   string
}

// statsTable has the stats of containers.
type statsTable struct {
	byName map[string]Stats
	none   bool
}

// SetStats sets the stats of containers of a name; by default they use nothing.
// The name is a container's or POD/CONTAINER, which takes precedence.
func (f *Fake) SetStats(name string, s Stats) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stats.byName == nil {
		f.stats.byName = map[string]Stats{}
	}
	f.stats.byName[name] = s
}

// NoStats makes the runtime have no calls for stats.
func (f *Fake) NoStats() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.none = true
}

func (s *statsTable) statsOf(c *container) Stats {
	if own, ok := s.byName[c.sandbox.config.GetMetadata().GetName()+"/"+c.containerName()]; ok {
		return own
	}
	return s.byName[c.containerName()]
}

var errNoStats = status.Error(codes.Unimplemented, "method not implemented")

func value(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }

func (s *runtimeServer) ListContainerStats(_ context.Context,
	r *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stats.none {
		return nil, errNoStats
	}
	response := &runtimeapi.ListContainerStatsResponse{}
	for _, c := range f.containers {
		if !selects(r.GetFilter().GetLabelSelector(), c.config.GetLabels()) {
			continue
		}
		used, now := f.stats.statsOf(c), time.Now().UnixNano()
		if used.Mount == "" {
			used.Mount = "/var/lib/critest"
		}
		one := &runtimeapi.ContainerStats{
			Attributes: &runtimeapi.ContainerAttributes{Id: c.id, Metadata: c.config.GetMetadata(),
				Labels: c.config.GetLabels()},
			WritableLayer: &runtimeapi.FilesystemUsage{
				Timestamp: now, FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: used.Mount},
				UsedBytes: value(used.Written), InodesUsed: value(used.Inodes),
			},
		}
		if c.running() {
			one.Cpu = &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: value(uint64(used.CPU))}
			one.Memory = &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: value(used.Memory),
				UsageBytes: value(used.Memory)}
		}
		response.Stats = append(response.Stats, one)
	}
	return response, nil
}

func (s *runtimeServer) ListPodSandboxStats(_ context.Context,
	r *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stats.none {
		return nil, errNoStats
	}
	response := &runtimeapi.ListPodSandboxStatsResponse{}
	for _, b := range f.sandboxes {
		if !b.ready || !selects(r.GetFilter().GetLabelSelector(), b.config.GetLabels()) {
			continue
		}
		var sum Stats
		for _, c := range b.members {
			if c.running() {
				used := f.stats.statsOf(c)
				sum.CPU, sum.Memory = sum.CPU+used.CPU, sum.Memory+used.Memory
			}
		}
		now := time.Now().UnixNano()
		linux := &runtimeapi.LinuxPodSandboxStats{
			Cpu:     &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: value(uint64(sum.CPU))},
			Memory:  &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: value(sum.Memory), UsageBytes: value(sum.Memory)},
			Process: &runtimeapi.ProcessUsage{Timestamp: now, ProcessCount: value(uint64(len(b.members)) + 1)},
		}
		if !b.hostNetwork() {
			eth0 := &runtimeapi.NetworkInterfaceUsage{Name: "eth0", RxBytes: value(sum.Memory), TxBytes: value(sum.Memory)}
			// containerd 2 lists the default interface among the others too.
			linux.Network = &runtimeapi.NetworkUsage{Timestamp: now, DefaultInterface: eth0,
				Interfaces: []*runtimeapi.NetworkInterfaceUsage{eth0}}
		}
		response.Stats = append(response.Stats, &runtimeapi.PodSandboxStats{
			Attributes: &runtimeapi.PodSandboxAttributes{Id: b.id, Metadata: b.config.GetMetadata(),
				Labels: b.config.GetLabels()}, Linux: linux,
		})
	}
	return response, nil
}
