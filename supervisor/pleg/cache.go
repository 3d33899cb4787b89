package pleg

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// cache holds the last inspection of each pod. It is guarded by PLEG.mu.
type cache struct {
	pods    map[types.UID]*entry
	waiters map[types.UID][]*waiter
	// listed is when the last relist was requested: a pod without an entry did
	// not exist then.
	listed time.Time
}

// entry is what is known of one pod of this daemon.
type entry struct {
	// status is the last inspection, nil if a relist showed the pod and no
	// inspection has succeeded yet. It is empty once the pod is gone, until a
	// relist confirms that.
	status *cri.PodStatus
	// seen is the time up to which status is known to be valid: that of the
	// inspection, or of the last relist that showed no difference.
	seen time.Time
	// round is the last relist that showed the pod.
	round uint64
}

// waiter waits for a status newer than after. Its channel has capacity 1.
type waiter struct {
	after    time.Time
	response chan *cri.PodStatus
}

func newCache() cache {
	return cache{pods: map[types.UID]*entry{}, waiters: map[types.UID][]*waiter{}}
}

// newer returns the status of a pod if it is known to be valid after t, else nil.
func (c *cache) newer(uid types.UID, t time.Time) *cri.PodStatus {
	if e := c.pods[uid]; e != nil {
		if e.status != nil && e.seen.After(t) {
			return e.status
		}
		return nil
	}
	if c.listed.After(t) {
		return &cri.PodStatus{UID: uid, At: c.listed}
	}
	return nil
}

// answer serves the pod's waiters whose status is there.
func (c *cache) response(uid types.UID) {
	waiting := c.waiters[uid]
	if len(waiting) == 0 {
		return
	}
	waiting = slices.DeleteFunc(waiting, func(w *waiter) bool {
		st := c.newer(uid, w.after)
		if st != nil {
			w.response <- st
		}
		return st != nil
	})
	if len(waiting) == 0 {
		delete(c.waiters, uid)
		return
	}
	c.waiters[uid] = waiting
}

// respondAll serves the waiters of all pods.
func (c *cache) respondAll() {
	for uid := range c.waiters {
		c.response(uid)
	}
}

func (c *cache) removeWaiter(uid types.UID, w *waiter) {
	waiting := slices.DeleteFunc(c.waiters[uid], func(o *waiter) bool { return o == w })
	if len(waiting) == 0 {
		delete(c.waiters, uid)
		return
	}
	c.waiters[uid] = waiting
}

func gone(st *cri.PodStatus) bool {
	return len(st.Sandboxes) == 0 && len(st.Containers) == 0
}

// Status returns the last inspection of a pod, never nil, and whether the pod was
// there.
func (p *PLEG) Status(uid types.UID) (*cri.PodStatus, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.cache.pods[uid]; e != nil && e.status != nil && !gone(e.status) {
		return e.status, true
	}
	return &cri.PodStatus{UID: uid, At: p.cache.listed}, false
}

// NewerThan returns the status of a pod that is known to be valid after t. It
// blocks until there is one, or until ctx ends, whose error it then returns. A pod
// that the runtime does not know has an empty status. The status's own time may be
// before t: then nothing changed up to some time after t.
func (p *PLEG) NewerThan(ctx context.Context, uid types.UID, t time.Time) (*cri.PodStatus, error) {
	p.mu.Lock()
	if st := p.cache.newer(uid, t); st != nil {
		p.mu.Unlock()
		return st, nil
	}
	w := &waiter{after: t, response: make(chan *cri.PodStatus, 1)}
	p.cache.waiters[uid] = append(p.cache.waiters[uid], w)
	// Between relists a minute apart nothing else would inspect the pod.
	p.inspections.request(uid, time.Now(), t)
	p.mu.Unlock()
	p.inspectNotify.Notify()
	select {
	case st := <-w.response:
		return st, nil
	case <-ctx.Done():
		p.mu.Lock()
		p.cache.removeWaiter(uid, w)
		p.mu.Unlock()
		return nil, ctx.Err()
	}
}
