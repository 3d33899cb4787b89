package cgroup

import (
	"cmp"
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// reservedMemory is the memory that is protected from reclaim: what the Guaranteed and the
// Burstable pods request, in bytes.
type reservedMemory struct {
	guaranteed, burstable map[types.UID]int64
	// min and low are the values of the root and of the Burstable tier, noLimit for none; 0
	// before they were set.
	min, low int64
}

// reservesMemory reports whether the kernel protects the memory that pods request.
func (o *Options) reservesMemory() bool {
	return o.Settings.V2 && o.Settings.MemoryQoS != nil && o.Settings.MemoryQoS.Reserve
}

// reserveMemory counts a pod. The protection of a cgroup has an effect only as far as its
// parents have it too: the root protects what both tiers request, and the tier of the Burstable
// pods what these do.
func (c *Cgroups) reserveMemory(ctx context.Context, pod *v1.Pod) error {
	if !c.reservesMemory() {
		return nil
	}
	r := &c.reserved
	if r.guaranteed == nil {
		r.guaranteed, r.burstable = map[types.UID]int64{}, map[types.UID]int64{}
	}
	delete(r.guaranteed, pod.UID)
	delete(r.burstable, pod.UID)
	switch podinfo.QOSClass(pod) {
	case v1.PodQOSGuaranteed:
		r.guaranteed[pod.UID] = amountsWithOverhead(pod).MemoryRequest
	case v1.PodQOSBurstable:
		r.burstable[pod.UID] = amountsWithOverhead(pod).MemoryRequest
	}
	return c.setReservedMemory(ctx)
}

// unreserveMemory forgets a pod that has ended.
func (c *Cgroups) unreserveMemory(ctx context.Context, uid types.UID) error {
	if !c.reservesMemory() {
		return nil
	}
	delete(c.reserved.guaranteed, uid)
	delete(c.reserved.burstable, uid)
	return c.setReservedMemory(ctx)
}

func (c *Cgroups) setReservedMemory(ctx context.Context) error {
	if c.controllers == nil {
		return nil
	}
	sum := func(requests map[types.UID]int64) (bytes int64) {
		for _, request := range requests {
			bytes += request
		}
		return bytes
	}
	r := &c.reserved
	burstable := sum(r.burstable)
	low, all := cmp.Or(burstable, noLimit), cmp.Or(burstable+sum(r.guaranteed), noLimit)
	if all != r.min {
		if err := c.create(ctx, c.root, limits{memoryMin: all}); err != nil {
			return err
		}
		r.min = all
	}
	if low != r.low {
		if err := c.create(ctx, c.root.child(tierBurstable), limits{memoryLow: low}); err != nil {
			return err
		}
		r.low = low
	}
	return nil
}
