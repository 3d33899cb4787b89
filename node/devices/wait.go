package devices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/device"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// waiter is a pod that waits for devices.
type waiter struct {
	uid      types.UID
	name     string
	wants    map[v1.ResourceName]int64
	priority int32
	since    time.Time
}

func (w *waiter) before(o *waiter) bool {
	return cmp.Or(cmp.Compare(o.priority, w.priority), w.since.Compare(o.since), strings.Compare(w.name, o.name),
		strings.Compare(string(w.uid), string(o.uid))) < 0
}

// Check returns why a pod cannot have its devices now, nil if it can. The devices that it has
// count as free for it: nothing of the pod runs. A pod that cannot have them waits until Allocate,
// Withdraw or Release, and goes before pods of a lower priority, and before those that wait for a
// shorter time.
func (m *Manager) Check(pod *v1.Pod) *device.Unavailable {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.check(pod)
}

// Preview is Check for a pod that is not desired yet, as if the pod that it replaces had ended. It
// does not make the pod wait.
func (m *Manager) Preview(pod *v1.Pod, replaced types.UID) *device.Unavailable {
	m.mu.Lock()
	defer m.mu.Unlock()
	wants := m.known(pod)
	if len(wants) == 0 {
		return nil
	}
	return m.unavailable(m.newWaiter(pod, wants, replaced, pod.UID), replaced)
}

// newWaiter returns a pod as one that waits, since the last one of these pods that waits, or else
// since now. mu is held.
func (m *Manager) newWaiter(pod *v1.Pod, wants map[v1.ResourceName]int64, since ...types.UID) *waiter {
	w := &waiter{uid: pod.UID, name: podinfo.FullName(pod), wants: wants, priority: podinfo.Priority(pod),
		since: time.Now()}
	for _, uid := range since {
		if before := m.waiting[uid]; before != nil {
			w.since = before.since
		}
	}
	return w
}

// known returns what a pod needs of the resources that count for it. For a pod of an API server
// those that no plugin has ever registered are left to the scheduler, as at the kubelet.
func (m *Manager) known(pod *v1.Pod) map[v1.ResourceName]int64 {
	wants := desired(pod)
	if podinfo.PolicyOf(pod).UnknownResourcesAreFree {
		maps.DeleteFunc(wants, func(name v1.ResourceName, _ int64) bool { return m.resources[name] == nil })
	}
	return wants
}

// check is Check. mu is held, as by all functions below.
func (m *Manager) check(pod *v1.Pod) *device.Unavailable {
	wants := m.known(pod)
	if len(wants) == 0 {
		return nil
	}
	w := m.newWaiter(pod, wants, pod.UID)
	u := m.unavailable(w, "")
	if u != nil {
		m.waiting[pod.UID] = w
	}
	return u
}

// Withdraw records that something other than devices keeps a pod from starting: it does not
// wait for devices any more.
func (m *Manager) Withdraw(uid types.UID) {
	m.mu.Lock()
	_, waited := m.waiting[uid]
	delete(m.waiting, uid)
	m.mu.Unlock()
	if waited {
		m.changed.Notify()
	}
}

// unavailable returns why the pod of w cannot have its devices. What the pods w.uid and replaced
// have counts as free.
func (m *Manager) unavailable(w *waiter, replaced types.UID) *device.Unavailable {
	for _, name := range slices.Sorted(maps.Keys(w.wants)) {
		u := &device.Unavailable{Resource: name, Requested: w.wants[name]}
		r := m.resources[name]
		switch {
		case r == nil:
			u.Cause = fmt.Sprintf("no device plugin has registered %s", name)
			u.Remedy = fmt.Sprintf("the pod starts when one does, at %s; devices that need no plugin are configured in "+
				"localDevices", m.socket())
			if m.disabled != nil {
				u.Remedy = "none can: " + m.disabled.Error()
			}
			return u
		case r.local != nil:
		case r.plugin == nil:
			u.Cause = fmt.Sprintf("the device plugin of %s is not connected", name)
			u.Remedy = fmt.Sprintf("the pod starts when it registers again, at %s", m.socket())
			return u
		case !r.plugin.listed:
			u.Cause = fmt.Sprintf("the device plugin of %s has not listed its devices yet", name)
			u.Remedy = "the pod starts when it has"
			return u
		}
		all := m.free(name, w.uid, replaced)
		free := int64(len(all))
		ahead, count, first := m.ahead(w, name, replaced)
		u.Available = max(free-count, int64(len(m.unreserved(name, all, ahead, w.uid, replaced))))
		if u.Available >= u.Requested {
			continue
		}
		healthy := int64(r.healthy())
		u.Cause = fmt.Sprintf("not enough %s (%d healthy, %d unhealthy, %d of the healthy in use)", name, healthy,
			int64(len(r.devices))-healthy, healthy-int64(len(m.freeIDs(name, w.uid, replaced))))
		u.Remedy = "the pod starts when devices are free"
		switch {
		case u.Requested > r.most() && r.local != nil:
			u.Remedy = "the pod starts when there are more devices at " + strings.Join(r.local.Paths, ", ")
			if len(r.local.CDI) > 0 {
				u.Remedy = "localDevices has no more; request less"
			}
		case u.Requested > healthy:
			u.Remedy = "the pod starts when the plugin reports more healthy devices"
		case free >= u.Requested:
			u.Remedy = fmt.Sprintf("the pod %s waits for them and goes first", first)
		}
		return u
	}
	return nil
}

// ahead returns how many pods are before w, how many devices go to them, and the first of them. One
// that waits for more than there is blocks no other pod.
func (m *Manager) ahead(w *waiter, name v1.ResourceName, replaced types.UID) (pods int, count int64, first string) {
	var firstWaiter *waiter
	for uid, other := range m.waiting {
		if uid == w.uid || uid == replaced || other.wants[name] == 0 || !other.before(w) || !m.feasible(other) {
			continue
		}
		pods++
		count += other.wants[name]
		if firstWaiter == nil || other.before(firstWaiter) {
			firstWaiter, first = other, other.name
		}
	}
	return pods, count, first
}

// unreserved returns, of the free devices of a resource, those that a pod can have although others are
// ahead of it. A pod takes different devices, so that a device with a free place for each of them and
// one more is not missed by any.
func (m *Manager) unreserved(name v1.ResourceName, free idSet, ahead int, except ...types.UID) idSet {
	if ahead == 0 {
		return free
	}
	r := m.resources[name]
	if r == nil || r.local == nil {
		return idSet{}
	}
	spare, inUse := idSet{}, m.localUse(name, except...)
	for id := range free {
		if r.local.PodsPerDevice-inUse[r.deviceOf(id)] > ahead {
			spare[id] = true
		}
	}
	return spare
}

// feasible reports whether a pod could have its devices if no other pod had any.
func (m *Manager) feasible(w *waiter) bool {
	for name, n := range w.wants {
		if m.resources[name].most() < n {
			return false
		}
	}
	return true
}

// most returns how many devices a single pod can have at most.
func (r *deviceResource) most() int64 {
	if r == nil || r.local == nil {
		return int64(r.healthy())
	}
	return int64(r.healthy() / r.local.PodsPerDevice)
}

// free returns the devices of a resource that a pod can have: the healthy ones that no pod has but
// the given ones, of a device that several pods can have one ID.
func (m *Manager) free(name v1.ResourceName, except ...types.UID) idSet {
	r, free := m.resources[name], m.freeIDs(name, except...)
	if r == nil || r.local == nil {
		return free
	}
	had := idSet{}
	for _, uid := range except {
		maps.Copy(had, m.had(uid, name))
	}
	return r.distinct(free, had, m.localUse(name, except...))
}

// localUse returns how many pods, apart from the given ones, have each device of a local resource.
func (m *Manager) localUse(name v1.ResourceName, except ...types.UID) map[string]int {
	inUse := map[string]int{}
	for uid, p := range m.pods {
		if slices.Contains(except, uid) {
			continue
		}
		for id := range p.ids(name) {
			inUse[m.resources[name].deviceOf(id)]++
		}
	}
	return inUse
}

// ids returns the devices of a resource that a pod has.
func (p *podDevices) ids(name v1.ResourceName) idSet {
	ids := idSet{}
	for _, resources := range p.containers {
		if a := resources[name]; a != nil {
			for _, id := range a.ids {
				ids[id] = true
			}
		}
	}
	return ids
}

// freeIDs returns the healthy devices of a resource that no pod has but the given ones.
func (m *Manager) freeIDs(name v1.ResourceName, except ...types.UID) idSet {
	r, free := m.resources[name], idSet{}
	if !r.isListed() {
		return free
	}
	for id, healthy := range r.devices {
		if healthy {
			free[id] = true
		}
	}
	for uid, p := range m.pods {
		if slices.Contains(except, uid) {
			continue
		}
		for id := range p.ids(name) {
			delete(free, id)
		}
	}
	return free
}
