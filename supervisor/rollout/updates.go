package rollout

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// handleUpdate applies an update of the manifests.
func (c *Controller) handleUpdate(u manifest.PodUpdate) {
	c.expireMoves(time.Now())
	if !podinfo.PolicyFor(u.Source).Static {
		if u.Op == manifest.Add {
			c.markDelivered(u.Source)
		}
		c.enqueue(u)
		return
	}
	if u.Op == manifest.Remove {
		c.handleRemove(u)
		return
	}
	passed := u
	passed.Pods = nil
	for _, pod := range u.Pods {
		c.handlePod(pod, &passed)
	}
	if len(passed.Pods) > 0 || u.Op == manifest.Add || u.Op == manifest.Restore {
		c.enqueue(passed)
	}
	if u.Op == manifest.Add {
		c.markDelivered(u.Source)
	}
	c.subscribers.Notify()
}

// handleRemove ends pods whose manifests are gone. The end of one that another
// revision replaces waits for that revision, which the manifests add next.
func (c *Controller) handleRemove(u manifest.PodUpdate) {
	// Those that end by one decision stay in one update.
	bySource := map[manifest.Source][]*v1.Pod{}
	for _, pod := range u.Pods {
		r := c.byName[podinfo.FullName(pod)]
		switch {
		case r == nil || r.manifest.UID != pod.UID:
			bySource[u.Source] = append(bySource[u.Source], pod)
		case u.Successors[pod.UID]:
			c.locked(func() { r.awaitsPod = true })
		default:
			source := r.current.source()
			bySource[source] = append(bySource[source], r.current.pod)
			c.remove(r)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(bySource)) {
		c.enqueue(manifest.PodUpdate{Op: manifest.Remove, Source: source, Pods: bySource[source]})
	}
}

// remove forgets the rollout of a pod that ends.
func (c *Controller) remove(r *podRollout) {
	c.cancelPreparation(r, nil)
	c.move(r, onRemove)
	c.mu.Lock()
	delete(c.byName, r.name)
	c.dropUID(r)
	c.mu.Unlock()
	delete(c.loop.dirty, r.name)
	c.store.remove(r.name)
	c.subscribers.Notify()
}

// handlePod takes the newest revision of a pod's manifest. What comes into effect of it
// at once is added to the update.
func (c *Controller) handlePod(pod *v1.Pod, passed *manifest.PodUpdate) {
	name := podinfo.FullName(pod)
	r := c.byName[name]
	if r == nil {
		c.dislodge(pod.UID, name)
		c.add(name, pod, passed)
		return
	}
	before := r.manifest
	c.locked(func() { r.manifest, r.awaitsPod = pod, false })
	if revisionID(before) != revisionID(pod) {
		c.locked(func() { r.choice = choice{} })
	}
	c.choose(r, passed)
}

// add begins the rollout of a pod that had none: at once, or with what an earlier
// daemon stored.
func (c *Controller) add(name string, pod *v1.Pod, passed *manifest.PodUpdate) {
	r := &podRollout{name: name, manifest: pod, since: time.Now()}
	stored := c.loop.stored[name]
	delete(c.loop.stored, name)
	if stored != nil {
		c.restore(r, stored)
	} else {
		r.current = newRevision(pod)
		r.history = history(nil).withRevision(r.current, time.Now())
		c.move(r, onAdd)
		c.save(r, later)
	}
	c.mu.Lock()
	c.byName[name] = r
	c.byUID[r.current.pod.UID] = r
	c.mu.Unlock()
	want := c.desired(r)
	if want.id == r.current.id || sameInstance(r.current.pod, want.pod) {
		// The newer object of what runs.
		c.locked(func() {
			if r.lastGood != nil && r.lastGood.id == r.current.id {
				r.lastGood = want
			}
			if r.current.id != want.id {
				r.history = r.history.withRevision(want, time.Now(), r.keepsRevisions()...)
				c.save(r, later)
			}
			r.current = want
		})
		passed.Pods = append(passed.Pods, want.pod)
		c.settle(r)
		return
	}
	c.pass(r.current.pod, passed)
	c.choose(r, passed)
}

// pass adds a pod to an update, or queues it alone if it is of another source.
func (c *Controller) pass(pod *v1.Pod, passed *manifest.PodUpdate) {
	source := podinfo.SourceOf(pod)
	if passed != nil && passed.Source == source && (passed.Op == manifest.Add || passed.Op == manifest.Restore) {
		passed.Pods = append(passed.Pods, pod)
		return
	}
	op := manifest.Restore
	if c.loop.delivered[source] {
		op = manifest.Add
	}
	// It reports nothing about the rest of the source.
	c.enqueue(manifest.PodUpdate{Op: op, Source: source, Pods: []*v1.Pod{pod}, Awaited: op == manifest.Restore})
}

// dislodge lets the replacement of another pod through that still has this UID, which
// only a user-defined UID can have: the UID has moved to another name.
func (c *Controller) dislodge(uid types.UID, name string) {
	r := c.byUID[uid]
	if r == nil || r.name == name {
		return
	}
	if r.candidate != nil {
		c.release(r, r.candidate, nil)
		return
	}
	if r.awaitsPod {
		// Its replacement follows, and starts when this has ended.
		c.enqueue(replacedBy(r.current.pod))
		c.mu.Lock()
		delete(c.byName, r.name)
		c.dropUID(r)
		c.mu.Unlock()
	}
}

// replacedBy returns the update that ends a pod for another one of its name.
func replacedBy(pod *v1.Pod) manifest.PodUpdate {
	return manifest.PodUpdate{
		Op: manifest.Remove, Source: podinfo.SourceOf(pod), Pods: []*v1.Pod{pod},
		Replaced: map[types.UID]bool{pod.UID: true},
	}
}

// dropUID forgets the UID of a rollout's pod, unless another rollout has it. mu is held.
func (c *Controller) dropUID(r *podRollout) {
	if c.byUID[r.current.pod.UID] == r {
		delete(c.byUID, r.current.pod.UID)
	}
}

// locked changes what other goroutines read.
func (c *Controller) locked(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}
