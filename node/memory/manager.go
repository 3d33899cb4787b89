package memory

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/node/assignments"
	"github.com/podstead/podstead/node/topology"
)

// ReasonUnavailable is the reason of a pod for which no NUMA nodes have enough memory.
const ReasonUnavailable = "NUMAMemoryUnavailable"

// Config configures a Manager.
type Config struct {
	// Machine is what the NUMA nodes have, and Reserved what of it containers never get; see
	// CheckReserved.
	Machine, Reserved Nodes
	// File is the path of the state file, and BootID that of the present boot.
	File, BootID string
	// Disk is where it is.
	Disk statefile.Disk
	// Requested is called for each request of a container for memory; err is nil if it was
	// assigned.
	Requested func(err error)
	Log       *slog.Logger
}

// Manager assigns memory of NUMA nodes to the containers of Guaranteed pods. Its methods may be
// called concurrently.
type Manager struct {
	cfg         Config
	allocatable Nodes

	mu    sync.Mutex
	state *assignments.Ledger[podState]
}

// Open reads the assignments of the last run. If they do not fit the present configuration or
// machine any more, pods that run keep them: without a daemon they would be worse off.
func Open(cfg Config) (*Manager, error) {
	s, err := openState(stateFile(cfg.File, cfg.BootID, cfg.Disk), cfg.Log)
	if err != nil {
		return nil, err
	}
	m := &Manager{cfg: cfg, allocatable: cfg.Machine.without(cfg.Reserved), state: s}
	machine := cfg.Machine.without(nil)
	taken := takenBy(s.State)
	for _, id := range slices.Sorted(maps.Keys(taken)) {
		for _, name := range slices.Sorted(maps.Keys(taken[id])) {
			has, usable, all := taken[id][name], m.allocatable[id][name], machine[id][name]
			if has > usable {
				cfg.Log.Warn("A NUMA node has less memory for pods than is assigned to running ones, because it has less or more "+
					"of it is reserved; no other pod gets memory of it, and they keep theirs until they are replaced; replace them, "+
					"or reserve less",
					"node", id, "type", string(name), "capacity", bytesText(all), "assignable", bytesText(usable), "assigned",
					bytesText(has), "pods", podNames(s.State))
			}
		}
	}
	return m, nil
}

// Shortage is why a pod cannot have the memory that it requests now.
type Shortage struct{ message string }

// Error is the message for users.
func (s *Shortage) Error() string { return s.message }

// Reason is the reason in the pod's status.
func (s *Shortage) Reason() string { return ReasonUnavailable }

// Requests returns the memory and the hugepages that a container of a pod requests, nil for one
// that gets none of its own: the pod is not Guaranteed, or, as at the kubelet, has spec.resources.
func Requests(pod *v1.Pod, c *v1.Container) Amounts {
	if pod.Spec.Resources != nil || podinfo.QOSClass(pod) != v1.PodQOSGuaranteed {
		return nil
	}
	requests := Amounts{}
	for name, quantity := range c.Resources.Limits { // equal to the requests
		if (name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)) &&
			quantity.Value() > 0 {
			requests[name] = quantity.Value()
		}
	}
	return requests
}

// Assign assigns memory to a container of a pod that is going to start, if it gets any of its own, or
// returns a *Shortage. A container that has its memory keeps it. The NUMA nodes are those in affinity,
// and as few others as possible. The containers of a pod are assigned in their order: as at the kubelet
// the memory of an init container is given to the containers on the same NUMA nodes that run after its
// end; that of a sidecar stays its own. What was assigned is saved by Commit.
func (m *Manager) Assign(pod *v1.Pod, c *v1.Container, affinity topology.Mask) error {
	requests := Requests(pod, c)
	if requests == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.state.Pods[pod.UID].Containers[c.Name]; ok {
		m.cfg.Requested(nil)
		return nil
	}
	mask := m.choose(pod, c, requests, affinity)
	if mask == 0 {
		err := m.shortage(c.Name, requests)
		m.cfg.Requested(err)
		return err
	}
	m.assign(pod, c, requests, mask)
	m.cfg.Requested(nil)
	return nil
}

// choose returns the NUMA nodes for a container, 0 if none have enough. mu is held, as by the
// functions below.
func (m *Manager) choose(pod *v1.Pod, c *v1.Container, requests Amounts, affinity topology.Mask) topology.Mask {
	best := topology.Hint{}
	for _, hint := range m.hints(pod, c, requests) {
		if hint.Mask&affinity != affinity {
			continue
		}
		if best.Mask == 0 || hint.Preferred && !best.Preferred || hint.Preferred == best.Preferred &&
			hint.Mask.Narrower(best.Mask) {
			best = hint
		}
	}
	return best.Mask
}

// shortage reports why a container gets no memory.
func (m *Manager) shortage(container string, requests Amounts) error {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		var free []string
		for _, id := range m.allocatable.mask().Nodes() {
			free = append(free, fmt.Sprintf("%s on NUMA node %d", bytesText(m.free(id, name)), id))
		}
		parts = append(parts, fmt.Sprintf("%s of %s, available %s", bytesText(requests[name]), name,
			strings.Join(free, ", ")))
	}
	return &Shortage{fmt.Sprintf("container %s requests %s (a NUMA node that serves one container alone is not combined "+
		"with others for another); the pod starts when others have released theirs, or request less", container,
		strings.Join(parts, "; "))}
}

// assign records the memory of a container: first what earlier init containers leave to it.
func (m *Manager) assign(pod *v1.Pod, c *v1.Container, requests Amounts, mask topology.Mask) {
	containers := map[string]containerState{}
	for name, has := range m.state.Pods[pod.UID].Containers {
		has.Taken = has.Taken.clone()
		containers[name] = has
	}
	own := containerState{NUMANodes: mask.Nodes(), Requested: requests, Taken: Nodes{}}
	left := maps.Clone(requests)
	move := func(id int, name v1.ResourceName, most int64) int64 {
		amount := min(left[name], most)
		if amount > 0 {
			left[name] -= amount
			own.Taken.add(id, name, amount)
		}
		return max(amount, 0)
	}
	for _, init := range earlier(pod, c) {
		has := containers[init]
		if has.mask() != mask {
			continue
		}
		for id, amounts := range has.Taken {
			for name, amount := range amounts {
				amounts[name] -= move(id, name, amount)
			}
		}
	}
	for name := range left {
		for _, id := range mask.Nodes() {
			move(id, name, m.free(id, name))
		}
	}
	containers[c.Name] = own
	m.state.Assign(pod.UID, podState{Name: podinfo.FullName(pod), Containers: containers})
}

// earlier returns the init containers of a pod that end before a container starts.
func earlier(pod *v1.Pod, before *v1.Container) (names []string) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == before.Name {
			break
		}
		if !podinfo.IsSidecar(c) {
			names = append(names, c.Name)
		}
	}
	return names
}

func (n Nodes) clone() Nodes {
	c := Nodes{}
	for id, amounts := range n {
		c[id] = maps.Clone(amounts)
	}
	return c
}

// free returns what is free of one type on a node.
func (m *Manager) free(id int, name v1.ResourceName) int64 {
	return max(m.allocatable[id][name]-takenBy(m.state.State)[id][name], 0)
}

// Commit saves what was assigned to a pod.
func (m *Manager) Commit(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.state.Commit(pod.UID) {
		return
	}
	nodes := topology.Mask(0)
	for _, c := range m.state.Pods[pod.UID].Containers {
		nodes |= c.mask()
	}
	m.cfg.Log.Info("Memory of NUMA nodes assigned", "pod", podinfo.FullName(pod), "nodes", nodes.String())
}

// Release releases the memory of a pod of which nothing runs any more, and reports whether it had
// any.
func (m *Manager) Release(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Release(uid)
}

// Retain releases the memory of pods for which keep returns false: those that ended while no daemon
// ran.
func (m *Manager) Retain(keep func(types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Retain(keep)
}

// Trial implements topology.Provider.
func (m *Manager) Trial(ended func(types.UID) bool) topology.Provider {
	m.mu.Lock()
	defer m.mu.Unlock()
	trial := &Manager{cfg: m.cfg, allocatable: m.allocatable, state: m.state.Trial(ended)}
	trial.cfg.Requested = func(error) {}
	return trial
}

// NUMANodes returns the NUMA nodes of a container as the kernel's list, empty for all.
func (m *Manager) NUMANodes(uid types.UID, container string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Pods[uid].Containers[container].mask().String()
}

// Fixed reports whether the memory of a pod's containers cannot change while they run: as at the
// kubelet that of no Guaranteed pod can.
func (m *Manager) Fixed(pod *v1.Pod) bool { return podinfo.QOSClass(pod) == v1.PodQOSGuaranteed }

// Assigned returns the NUMA nodes of a container and what it has of them together.
func (m *Manager) Assigned(uid types.UID, container string) (nodes []int, has Amounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.state.Pods[uid].Containers[container]
	return slices.Clone(c.NUMANodes), maps.Clone(c.Requested)
}

// Assignable returns what containers can have of each NUMA node.
func (m *Manager) Assignable() Nodes { return m.allocatable.clone() }
