package topology

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/device"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/wakeup"
)

// ReasonAffinity is the reason of a pod whose resources cannot be aligned, the kubelet's.
const ReasonAffinity = "TopologyAffinityError"

// Provider assigns a resource of the node to containers. Implemented by the managers of CPUs and
// memory.
type Provider interface {
	// Hints returns the hints for what a container requests, or for the pod as a whole if c is
	// nil, by resource; nil for no preference.
	Hints(pod *v1.Pod, c *v1.Container) map[v1.ResourceName][]Hint
	// Assign assigns what a container requests, preferably from these NUMA nodes. It keeps what
	// the container has. Commit saves what was assigned to a pod.
	Assign(pod *v1.Pod, c *v1.Container, affinity Mask) error
	Commit(pod *v1.Pod)
	// Release releases what a pod has and reports whether that was anything, Retain what all pods
	// have for which keep returns false.
	Release(uid types.UID) bool
	Retain(keep func(types.UID) bool)
	// Trial returns a provider with a copy of what the pods have, without those that ended reports. What
	// it assigns is tried and not saved.
	Trial(ended func(types.UID) bool) Provider
}

// Devices are the node's devices. Implemented by devices.Manager.
type Devices interface {
	// Nodes returns the NUMA nodes of each healthy device of a resource, and of each one that no pod
	// has but these; nothing for one whose plugin does not say.
	Nodes(name v1.ResourceName, uids ...types.UID) (all, free [][]int)
	// Requests returns how many devices a pod needs at the same time, by resource.
	Requests(pod *v1.Pod) map[v1.ResourceName]int64
	// Await makes the pod be tried again when the devices have changed.
	Await(uid types.UID)
	// Holds reports whether a pod has devices.
	Holds(uid types.UID) bool
}

// Config configures a Manager.
type Config struct {
	Policy, Scope string
	Options       Options
	Nodes         Nodes
	Providers     []Provider
	// Devices may be nil.
	Devices Devices
	Log     *slog.Logger
}

// Manager assigns the resources of a pod, aligned by the policy. Its methods may be called
// concurrently.
type Manager struct {
	cfg Config

	// mu is held while a pod is assigned, so that no other pod gets what it was hinted.
	mu     sync.Mutex
	claims []claim

	// affinityMu protects affinity alone, which the devices read while they are locked.
	affinityMu sync.Mutex
	affinity   map[types.UID]map[string]Mask

	changed wakeup.Signal
	// ended are the pods whose devices count as free, in the manager of a Preview.
	ended []types.UID
}

// claim are devices that a container is going to get: they are allocated later, since that may take
// a device plugin some time.
type claim struct {
	uid      types.UID
	resource v1.ResourceName
	mask     Mask
	count    int
}

// New creates a Manager. CheckNodes has accepted the policy on this machine.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, affinity: map[types.UID]map[string]Mask{}, changed: wakeup.NewSignal()}
}

// Changed receives after something was released.
func (m *Manager) Changed() <-chan struct{} { return m.changed.C() }

// CheckNodes returns an error for a policy that cannot work on a machine with these NUMA nodes.
// setting is the name of that of the options.
func CheckNodes(policy string, o Options, nodes Nodes, setting string) error {
	if policy != PolicyNone && len(nodes) > o.MaxNodes {
		return fmt.Errorf("%s is not supported on this node: it has %d NUMA nodes, and %s is %d; raise it in %s, or set "+
			"the policy to %s",
			policy, len(nodes), optionMaxNodes, o.MaxNodes, setting, PolicyNone)
	}
	return nil
}

// CheckDistances returns an error for an option that cannot work on a machine with these NUMA nodes.
func (o Options) CheckDistances(nodes Nodes) error {
	if o.PreferClosest && !nodes.HasDistances() {
		return fmt.Errorf("%s is not supported on this node: the kernel does not report the distances of its NUMA nodes; "+
			"remove it", optionClosest)
	}
	return nil
}

// AffinityError is why a pod is not admitted.
type AffinityError struct{ message string }

func (e *AffinityError) Error() string { return e.message }

// Reason is the reason in the pod's status.
func (e *AffinityError) Reason() string { return ReasonAffinity }

// Assign assigns what the containers of a pod request that is going to start, or returns why it
// cannot and assigns nothing.
func (m *Manager) Assign(pod *v1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(pod.UID)
	err := m.assign(pod)
	if err != nil && m.release(pod.UID) {
		// What it had may be what cannot be aligned, such as under another policy.
		if err = m.assign(pod); err != nil {
			m.release(pod.UID)
		}
	}
	if err != nil {
		return err
	}
	for _, p := range m.cfg.Providers {
		p.Commit(pod)
	}
	return nil
}

// Preview returns why Assign would fail for a pod once some pods have ended and others have been
// assigned what they request; nil if it would not. It assigns nothing.
func (m *Manager) Preview(pod *v1.Pod, ended []types.UID, first []*v1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	trial := New(m.cfg)
	trial.ended, trial.cfg.Log, trial.cfg.Providers = ended, slog.New(slog.DiscardHandler), nil
	hasEnded := func(uid types.UID) bool { return slices.Contains(ended, uid) }
	for _, p := range m.cfg.Providers {
		trial.cfg.Providers = append(trial.cfg.Providers, p.Trial(hasEnded))
	}
	trial.claims = slices.DeleteFunc(slices.Clone(m.claims), func(c claim) bool { return hasEnded(c.uid) })
	if m.cfg.Devices != nil {
		trial.cfg.Devices = trialDevices{m.cfg.Devices}
	}
	for _, other := range first {
		if trial.assign(other) != nil {
			trial.release(other.UID) // it waits
		}
	}
	return trial.assign(pod)
}

// trialDevices are the devices without pods that wait for them.
type trialDevices struct{ Devices }

func (trialDevices) Await(types.UID) {}

func (m *Manager) assign(pod *v1.Pod) error {
	whole := Mask(0)
	if m.cfg.Policy != PolicyNone && m.cfg.Scope == ScopePod {
		mask, err := m.align(pod, nil)
		if err != nil {
			return err
		}
		whole = mask
	}
	chosen := map[string]Mask{}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		mask := whole
		if m.cfg.Policy != PolicyNone && m.cfg.Scope != ScopePod {
			var err error
			if mask, err = m.align(pod, c); err != nil {
				return err
			}
		}
		for _, p := range m.cfg.Providers {
			if err := p.Assign(pod, c, mask); err != nil {
				return err
			}
		}
		if mask != 0 {
			chosen[c.Name] = mask
			m.claim(pod, c, mask)
		}
	}
	if len(chosen) > 0 {
		m.affinityMu.Lock()
		m.affinity[pod.UID] = chosen
		m.affinityMu.Unlock()
	}
	return nil
}

// align returns the NUMA nodes for a container, or for the pod if c is nil; 0 for any.
func (m *Manager) align(pod *v1.Pod, c *v1.Container) (Mask, error) {
	var lists [][]Hint
	var names []string
	add := func(hints map[v1.ResourceName][]Hint) {
		for _, name := range slices.Sorted(maps.Keys(hints)) {
			lists, names = append(lists, hints[name]), append(names, string(name))
		}
	}
	for _, p := range m.cfg.Providers {
		add(p.Hints(pod, c))
	}
	if m.cfg.Devices != nil {
		// Before the hints, so that no change of devices is missed.
		m.cfg.Devices.Await(pod.UID)
		add(m.deviceHints(pod, c))
	}
	if len(lists) == 0 {
		return 0, nil
	}
	mask, admitted := (&merger{policy: m.cfg.Policy, closest: m.cfg.Options.PreferClosest, nodes: m.cfg.Nodes}).merge(
		lists)
	if admitted {
		m.cfg.Log.Debug("Topology affinity", "pod", podinfo.FullName(pod), "nodes", mask.String())
		return mask, nil
	}
	subject := "the pod"
	if c != nil {
		subject = "container " + c.Name
	}
	return 0, &AffinityError{fmt.Sprintf("Resources cannot be allocated with Topology locality: no NUMA nodes are free "+
		"that serve %s of %s together, as topologyManagerPolicy %s requires; "+
		"the pod starts when others have released theirs, or request less", strings.Join(names, ", "), subject, m.cfg.Policy)}
}

// claim notes the devices that a container is going to get from its NUMA nodes. An init container
// leaves them to the containers after it.
func (m *Manager) claim(pod *v1.Pod, c *v1.Container, mask Mask) {
	if isInit(pod, c) && !podinfo.IsSidecar(c) {
		return
	}
	for name, n := range device.Requests(pod, c) {
		m.claims = append(m.claims, claim{pod.UID, name, mask, int(n)})
	}
}

func isInit(pod *v1.Pod, c *v1.Container) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name })
}

// deviceHints returns the hints for devices.
func (m *Manager) deviceHints(pod *v1.Pod, c *v1.Container) map[v1.ResourceName][]Hint {
	var requests map[v1.ResourceName]int64
	if c != nil {
		requests = device.Requests(pod, c)
	} else {
		requests = m.cfg.Devices.Requests(pod)
	}
	hints := map[v1.ResourceName][]Hint{}
	for name, n := range requests {
		all, free := m.cfg.Devices.Nodes(name, append(m.ended[:len(m.ended):len(m.ended)], pod.UID)...)
		if !slices.ContainsFunc(all, func(nodes []int) bool { return len(nodes) > 0 }) {
			continue // no preference
		}
		for _, other := range m.claims {
			if other.resource == name && (other.uid == pod.UID || !m.cfg.Devices.Holds(other.uid)) {
				free = without(free, other)
			}
		}
		count := func(devices [][]int, mask Mask) (n int64) {
			for _, nodes := range devices {
				if NewMask(nodes...)&mask != 0 {
					n++
				}
			}
			return n
		}
		hints[name] = HintsFor(m.cfg.Nodes.Mask(), func(mask Mask) bool { return count(free, mask) >= n },
			func(mask Mask) bool { return count(all, mask) >= n })
	}
	return hints
}

// without returns the devices that are left when those of a claim are taken: the ones in its nodes
// first.
func without(free [][]int, c claim) [][]int {
	left, rest := slices.Clone(free), c.count
	for _, near := range []bool{true, false} {
		left = slices.DeleteFunc(left, func(nodes []int) bool {
			if rest == 0 || near != (NewMask(nodes...)&c.mask != 0) {
				return false
			}
			rest--
			return true
		})
	}
	return left
}

// Affinity returns the NUMA nodes that were chosen for a container, 0 for any.
func (m *Manager) Affinity(uid types.UID, container string) Mask {
	m.affinityMu.Lock()
	defer m.affinityMu.Unlock()
	return m.affinity[uid][container]
}

// Release releases what a pod has of which nothing runs any more.
func (m *Manager) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.release(uid) {
		m.changed.Notify()
	}
}

func (m *Manager) release(uid types.UID) (had bool) {
	m.forget(uid)
	for _, p := range m.cfg.Providers {
		had = p.Release(uid) || had
	}
	return had
}

func (m *Manager) forget(uid types.UID) {
	m.affinityMu.Lock()
	delete(m.affinity, uid)
	m.affinityMu.Unlock()
	m.claims = slices.DeleteFunc(m.claims, func(c claim) bool { return c.uid == uid })
}

// Retain releases what the pods have for which keep returns false: those that ended while no daemon
// ran.
func (m *Manager) Retain(keep func(types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.cfg.Providers {
		p.Retain(keep)
	}
	m.affinityMu.Lock()
	uids := slices.Collect(maps.Keys(m.affinity))
	m.affinityMu.Unlock()
	for _, uid := range uids {
		if !keep(uid) {
			m.forget(uid)
		}
	}
}
