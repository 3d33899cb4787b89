package devices

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/device"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// idSet are IDs of devices of one resource.
type idSet map[string]bool

// desired returns how many different devices a pod needs, by resource: init containers run one
// after the other and their devices are used again, next to those of the sidecars that started
// before them.
func desired(pod *v1.Pod) map[v1.ResourceName]int64 {
	running, peak := map[v1.ResourceName]int64{}, map[v1.ResourceName]int64{}
	raise := func(to map[v1.ResourceName]int64) {
		for name, n := range to {
			peak[name] = max(peak[name], n)
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		step := maps.Clone(running)
		for name, n := range device.Requests(pod, c) {
			step[name] += n
		}
		raise(step)
		if podinfo.IsSidecar(c) {
			running = step
		}
	}
	for i := range pod.Spec.Containers {
		for name, n := range device.Requests(pod, &pod.Spec.Containers[i]) {
			running[name] += n
		}
	}
	raise(running)
	return peak
}

// step is the devices of one resource for one container, in the order in which containers get
// theirs.
type step struct {
	container string
	resource  v1.ResourceName
	count     int
}

// steps returns the allocations that a pod needs, in a fixed order: init containers first.
func steps(pod *v1.Pod) (list []step) {
	add := func(c *v1.Container) {
		requests := device.Requests(pod, c)
		for _, name := range slices.Sorted(maps.Keys(requests)) {
			list = append(list, step{c.Name, name, int(requests[name])})
		}
	}
	for i := range pod.Spec.InitContainers {
		add(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return list
}

// pool is the devices of one resource from which the containers of one pod get theirs.
type pool struct {
	// free are healthy devices that nothing has. reusable are those of init containers that
	// have ended when the next container starts.
	free, reusable idSet
	// before are those that the pod had; it gets them again if they are free. unreserved are those for
	// which no pod waits that goes first.
	before, unreserved idSet
	// order moves the devices that are preferred to the front; nil for none.
	order func(ids []string) []string
}

// choose returns count devices, first reusable ones, then those for which no other pod waits, of each
// those that the pod had, then by ID; nil if there are not enough.
func (p *pool) choose(count int) []string {
	ids := slices.Sorted(maps.Keys(p.free))
	ordered := slices.Sorted(maps.Keys(p.reusable))
	rank := func(id string) (n int) {
		if !p.unreserved[id] {
			n = 2
		}
		if !p.before[id] {
			n++
		}
		return n
	}
	slices.SortStableFunc(ids, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	ordered = append(ordered, ids...)
	if len(ordered) < count {
		return nil
	}
	if p.order != nil {
		kept := min(len(p.reusable), count)
		ordered = append(ordered[:kept:kept], p.order(ordered[kept:])...)
	}
	return ordered[:count]
}

// valid reports whether a choice of the plugin can be used: it has the right number of different
// devices, all of them available, and all that are reusable as far as there are enough.
func (p *pool) valid(ids []string, count int) bool {
	seen := idSet{}
	reused := 0
	for _, id := range ids {
		if seen[id] || !p.free[id] && !p.reusable[id] {
			return false
		}
		if p.reusable[id] {
			reused++
		}
		seen[id] = true
	}
	return len(ids) == count && reused == min(count, len(p.reusable))
}

// assign moves devices to a container. An init container that ends leaves them to the next one;
// a sidecar and a regular container keep theirs.
func (p *pool) assign(ids []string, reusable bool) {
	for _, id := range ids {
		delete(p.free, id)
		delete(p.reusable, id)
		if reusable {
			p.reusable[id] = true
		}
	}
}

// endsEarly reports whether a container is an init container that ends before the next one starts.
func endsEarly(pod *v1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return !podinfo.IsSidecar(c)
		}
	}
	return false
}
