package memory

import (
	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/node/topology"
)

// Hints returns which NUMA nodes have enough memory for a container, or for all containers of the
// pod if c is nil; nil if they get none of their own. The hints of all types are the same.
func (m *Manager) Hints(pod *v1.Pod, c *v1.Container) map[v1.ResourceName][]topology.Hint {
	requests := requestsOfPod(pod)
	if c != nil {
		requests = Requests(pod, c)
	}
	if len(requests) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	hints := m.present(pod, c)
	if hints == nil {
		hints = m.hints(pod, c, requests)
	}
	all := map[v1.ResourceName][]topology.Hint{}
	for name := range requests {
		all[name] = hints
	}
	return all
}

// present returns the NUMA nodes of a container, or of the pod, that has its memory; nil if it has
// none.
func (m *Manager) present(pod *v1.Pod, c *v1.Container) []topology.Hint {
	mask := topology.Mask(0)
	for name, has := range m.state.Pods[pod.UID].Containers {
		if c == nil || c.Name == name {
			mask |= has.mask()
		}
	}
	if mask == 0 {
		return nil
	}
	return []topology.Hint{{Mask: mask, Preferred: true}}
}

// hints returns the sets of NUMA nodes that serve some requests. As at the kubelet a node that
// serves a container alone serves none together with other nodes, and one that is in a group
// serves only that group.
func (m *Manager) hints(pod *v1.Pod, c *v1.Container, requests Amounts) []topology.Hint {
	taken, groups := takenBy(m.state.State), m.groups()
	canEver := func(mask topology.Mask) bool {
		for name, amount := range requests {
			if m.allocatable.in(mask, name) < amount {
				return false
			}
		}
		return true
	}
	return topology.HintsFor(m.allocatable.mask(), func(mask topology.Mask) bool {
		for _, id := range mask.Nodes() {
			if group := groups[id]; group != 0 && group != mask {
				return false
			}
		}
		for name, amount := range requests {
			free := m.reusable(pod, c, mask, name)
			for _, id := range mask.Nodes() {
				free += max(m.allocatable[id][name]-taken[id][name], 0)
			}
			if free < amount {
				return false
			}
		}
		return canEver(mask)
	}, canEver)
}

// groups returns the nodes with which each used node serves containers, itself included.
func (m *Manager) groups() map[int]topology.Mask {
	groups := map[int]topology.Mask{}
	for _, pod := range m.state.Pods {
		for _, c := range pod.Containers {
			for _, id := range c.NUMANodes {
				groups[id] |= c.mask()
			}
		}
	}
	return groups
}

// reusable returns what init containers of the pod leave to a container on the same nodes.
func (m *Manager) reusable(pod *v1.Pod, c *v1.Container, mask topology.Mask, name v1.ResourceName) (sum int64) {
	if c == nil {
		return 0
	}
	for _, init := range earlier(pod, c) {
		if has := m.state.Pods[pod.UID].Containers[init]; has.mask() == mask {
			sum += has.Taken.in(mask, name)
		}
	}
	return sum
}

// requestsOfPod returns what a pod needs at the same time.
func requestsOfPod(pod *v1.Pod) Amounts {
	running, peak := Amounts{}, Amounts{}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		init := false
		for i := range pod.Spec.InitContainers {
			init = init || pod.Spec.InitContainers[i].Name == c.Name
		}
		for name, amount := range Requests(pod, c) {
			peak[name] = max(peak[name], running[name]+amount)
			if !init || podinfo.IsSidecar(c) {
				running[name] += amount
			}
		}
	}
	return peak
}
