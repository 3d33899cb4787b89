package cgroup

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

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
	// ended: the protection that an earlier run has left was removed.
	ended bool
	// minTotal and lowTotal are what Protected returns: it does not wait for a change of cgroups.
	minTotal, lowTotal atomic.Int64
}

// Protected returns how much memory of Guaranteed and of Burstable pods is protected from reclaim, in
// bytes. It never waits.
func (c *Cgroups) Protected() (guaranteed, burstable int64) {
	return c.reserved.minTotal.Load(), c.reserved.lowTotal.Load()
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
		return c.endReservation(ctx)
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

// endReservation removes the protection that the root and the tier of the Burstable pods have from
// a run with another setting: it would last until the next boot.
func (c *Cgroups) endReservation(ctx context.Context) error {
	if c.reserved.ended || c.controllers == nil {
		return nil
	}
	for _, place := range []cgroupName{c.root, c.root.child(tierBurstable)} {
		if l := c.unprotected(place, limits{}); l.memoryMin != 0 {
			if err := c.create(ctx, place, l); err != nil {
				return err
			}
		}
	}
	c.reserved.ended = true
	return nil
}

// unprotected adds to the values of a cgroup that it has no protection, if it has one that no setting
// wants any more.
func (c *Cgroups) unprotected(place cgroupName, l limits) limits {
	dir := c.hierarchies.directory(controllerMemory, c.driver.path(place))
	if c.reservesMemory() || !c.hierarchies.v2() || dir == "" {
		return l
	}
	for _, file := range []string{"memory.min", "memory.low"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if value := strings.TrimSpace(string(text)); err == nil && value != "" && value != "0" {
			l.memoryMin, l.memoryLow = noLimit, noLimit
		}
	}
	return l
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
	burstable, guaranteed := sum(r.burstable), sum(r.guaranteed)
	r.minTotal.Store(guaranteed)
	r.lowTotal.Store(burstable)
	low, all := cmp.Or(burstable, noLimit), cmp.Or(burstable+guaranteed, noLimit)
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
