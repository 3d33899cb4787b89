package cpus

import (
	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/node/topology"
)

// Hints returns which NUMA nodes have enough CPUs for a container, or for all containers of the
// pod if c is nil; nil if no CPUs are requested exclusively.
func (m *Manager) Hints(pod *v1.Pod, c *v1.Container) map[v1.ResourceName][]topology.Hint {
	n := 0
	if c != nil {
		n = Exclusive(pod, c)
	} else {
		n = exclusiveOfPod(pod)
	}
	if n == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	available, reusable := m.free(), m.state.Pods[pod.UID].all()
	if c != nil {
		if own, ok := m.state.Pods[pod.UID].Containers[c.Name]; ok {
			available, reusable = own, nil
		} else {
			reusable = m.reusable(pod, c)
		}
	}
	return map[v1.ResourceName][]topology.Hint{v1.ResourceCPU: m.hints(available, reusable, n)}
}

// exclusiveOfPod returns how many exclusive CPUs a pod needs at the same time.
func exclusiveOfPod(pod *v1.Pod) int {
	running, peak := 0, 0
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		n := Exclusive(pod, c)
		peak = max(peak, running+n)
		if !isInit(pod, c) || podinfo.IsSidecar(c) {
			running += n
		}
	}
	return peak
}

// hints returns those for n CPUs. A set of nodes must have all reusable CPUs, as at the kubelet,
// because the pod has these anyway.
func (m *Manager) hints(available, reusable Set, n int) []topology.Hint {
	t := m.cfg.Topology
	nodes := topology.Mask(0)
	for _, cpu := range t {
		nodes |= topology.NewMask(cpu.Node)
	}
	in := func(set Set, mask topology.Mask) int { return len(t.inNodes(set, mask)) }
	all := available.Union(reusable)
	hints := topology.HintsFor(nodes, func(mask topology.Mask) bool {
		return in(all, mask) >= n && in(reusable, mask) == len(reusable)
	}, func(mask topology.Mask) bool { return in(m.all, mask) >= n })
	if m.cfg.Options.AlignBySocket {
		m.preferSockets(hints, nodes, n)
	}
	return hints
}

// preferSockets prefers sets of nodes that are in as few sockets as the request needs.
func (m *Manager) preferSockets(hints []topology.Hint, nodes topology.Mask, n int) {
	t := m.cfg.Topology
	perSocket := nodes.Count() / len(t.sizes(bySocket))
	if perSocket == 0 {
		return
	}
	least := nodes.Count()
	for mask := range nodes.Subsets() {
		if len(t.inNodes(m.all, mask)) >= n {
			least = min(least, mask.Count())
		}
	}
	for i := range hints {
		sockets := len(t.groups(t.inNodes(m.all, hints[i].Mask), bySocket))
		hints[i].Preferred = hints[i].Preferred || sockets == (least+perSocket-1)/perSocket
	}
}

// near returns the CPUs of a set that are in some NUMA nodes or, with align-by-socket, in their
// sockets; none for any node.
func (m *Manager) near(set Set, mask topology.Mask) Set {
	t := m.cfg.Topology
	if !m.cfg.Options.AlignBySocket {
		return t.inNodes(set, mask)
	}
	sockets := t.groups(t.inNodes(m.all, mask), bySocket)
	var near Set
	for _, cpu := range set {
		if len(sockets[t[cpu].Socket]) > 0 {
			near = append(near, cpu)
		}
	}
	return near
}

// inNodes returns the CPUs of a set that are in some NUMA nodes.
func (t Topology) inNodes(set Set, mask topology.Mask) (in Set) {
	for _, cpu := range set {
		if mask.Has(t[cpu].Node) {
			in = append(in, cpu)
		}
	}
	return in
}
