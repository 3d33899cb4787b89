package daemon

import (
	"context"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/node/memory"
	"github.com/podstead/podstead/node/podresources"
)

// servePodResources serves the PodResources API next to the directory of device plugins, where
// exporters look for it. Next to a kubelet, which serves it, podstead does not.
func (d *daemon) servePodResources(context.Context) error {
	listener, err := podresources.Listen(filepath.Join(filepath.Dir(d.opts.Paths.DevicePlugins), "pod-resources"))
	if err != nil {
		d.log.Warn("PodResources API is not served", "err", err)
		return nil
	}
	cfg := podresources.Config{Pods: d.sup.SyncedPods, Devices: d.devices}
	if d.cpus != nil {
		cfg.CPUs = exclusiveCPUs{d.cpus}
	}
	if d.memory != nil {
		cfg.Memory = assignedMemory{d.memory}
	}
	if d.claims != nil {
		cfg.Claims = d.claims
	}
	d.start(func(ctx context.Context) error { return podresources.Serve(ctx, listener, cfg) })
	return nil
}

// exclusiveCPUs implements podresources.CPUs.
type exclusiveCPUs struct{ manager *cpus.Manager }

func (c exclusiveCPUs) Exclusive(uid types.UID, container string) []int64 {
	return cpuIDs(c.manager.Assigned(uid, container))
}

func (c exclusiveCPUs) Allocatable() []int64 { return cpuIDs(c.manager.Assignable()) }

func cpuIDs(set cpus.Set) (ids []int64) {
	for _, cpu := range set {
		ids = append(ids, int64(cpu))
	}
	return ids
}

// assignedMemory implements podresources.Memory.
type assignedMemory struct{ manager *memory.Manager }

func (m assignedMemory) Assigned(uid types.UID, container string) ([]int, map[v1.ResourceName]int64) {
	return m.manager.Assigned(uid, container)
}

func (m assignedMemory) Allocatable() map[int]map[v1.ResourceName]int64 {
	all := map[int]map[v1.ResourceName]int64{}
	for id, amounts := range m.manager.Assignable() {
		all[id] = amounts
	}
	return all
}
