package cpus

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/node/assignments"
	"github.com/podstead/podstead/node/topology"
)

// The reasons for which a pod gets no exclusive CPUs, the kubelet's where it has one.
const (
	ReasonUnavailable  = "ExclusiveCPUsUnavailable"
	ReasonSMTAlignment = "SMTAlignmentError"
)

// Reasons lists all of them.
var Reasons = []string{ReasonUnavailable, ReasonSMTAlignment}

// Container is a running container.
type Container struct {
	Pod      types.UID
	Name, ID string
}

// Config configures a Manager.
type Config struct {
	Topology Topology
	Options  Options
	// Reserved are the CPUs that are never assigned; see the function of this name.
	Reserved Set
	// File is the path of the state file, and BootID that of the present boot.
	File, BootID string
	// Disk is where it is.
	Disk statefile.Disk
	// Running returns the running containers, and Update sets the CPUs of one of them.
	Running func() []Container
	Update  func(ctx context.Context, id, cpus string) error
	Log     *slog.Logger
}

// Manager assigns exclusive CPUs to the containers of Guaranteed pods that request whole CPUs,
// and keeps all other containers on the rest. Its methods may be called concurrently.
type Manager struct {
	cfg Config
	all Set
	// changed notifies Run.
	changed wakeup.Signal

	mu    sync.Mutex
	state *assignments.Ledger[podState]
	// applied are the CPUs that containers were given, by ID.
	applied map[string]appliedSet
}

// appliedSet are the CPUs that a container was given. until is when it is forgotten although
// no list has shown it running, zero for one that was in a list.
type appliedSet struct {
	cpus  string
	until time.Time
}

// Open reads the assignments of the last run. They must fit the present configuration: no CPU
// that a container has alone can become a reserved one while the pod runs. Assigned CPUs that
// are not online any more are dropped.
func Open(cfg Config) (*Manager, error) {
	changed := wakeup.NewSignal()
	s, err := assignments.Open(stateFile(cfg.File, cfg.BootID, cfg.Disk), changed.Notify, cfg.Log)
	if err != nil {
		return nil, err
	}
	m := &Manager{cfg: cfg, all: cfg.Topology.All(), changed: changed, state: s, applied: map[string]appliedSet{}}
	for uid, pod := range s.Pods {
		if taken := pod.all().Intersect(cfg.Reserved); len(taken) > 0 {
			return nil, fmt.Errorf("reservedSystemCPUs: CPU %s is assigned exclusively to pod %s, as %s says; remove the pod "+
				"first, with the reserved CPUs of before, or reserve other CPUs", taken, pod.Name, cfg.File)
		}
		if missing := pod.all().Minus(m.all); len(missing) > 0 {
			cfg.Log.Warn("Exclusive CPUs are not online any more, the pod shares CPUs until it is replaced", "pod", pod.Name,
				"cpus", missing.String())
			delete(s.Pods, uid)
		}
	}
	m.changed.Notify()
	return m, nil
}

// Shortage is why a pod cannot have the exclusive CPUs that it requests now.
type Shortage struct{ reason, message string }

// Error is the message for users.
func (s *Shortage) Error() string { return s.message }

// Reason is the reason in the pod's status.
func (s *Shortage) Reason() string { return s.reason }

// Exclusive returns how many exclusive CPUs a container of a pod gets: its request, if the pod
// is Guaranteed and that is a whole number. As at the kubelet a pod with spec.resources gets
// none.
func Exclusive(pod *v1.Pod, c *v1.Container) int {
	if pod.Spec.Resources != nil || podinfo.QOSClass(pod) != v1.PodQOSGuaranteed {
		return 0
	}
	request := c.Resources.Requests[v1.ResourceCPU]
	if milli := request.MilliValue(); milli%1000 == 0 {
		return int(milli / 1000)
	}
	return 0
}

// Assign assigns exclusive CPUs to a container of a pod that is going to start, if it gets any, or
// returns a *Shortage. A container that has its CPUs keeps them. CPUs of the NUMA nodes in
// affinity are taken first. The containers of a pod are assigned in their order: like the kubelet
// it gives the CPUs of an init container to the containers that run after its end; those of a
// sidecar stay its own. What was assigned is saved by Commit.
func (m *Manager) Assign(pod *v1.Pod, c *v1.Container, affinity topology.Mask) error {
	n := Exclusive(pod, c)
	m.mu.Lock()
	defer m.mu.Unlock()
	had := m.state.Pods[pod.UID].Containers
	if _, ok := had[c.Name]; ok || n == 0 {
		return nil
	}
	taken, err := m.choose(m.free().Union(m.reusable(pod, c)), c.Name, n, affinity)
	if err != nil {
		return err
	}
	assigned := podState{Name: podinfo.FullName(pod), Containers: map[string]Set{c.Name: taken}}
	maps.Copy(assigned.Containers, had)
	m.state.Assign(pod.UID, assigned)
	return nil
}

// reusable returns the CPUs of the pod that a container can have because those that have them end
// before it starts. mu is held.
func (m *Manager) reusable(pod *v1.Pod, before *v1.Container) (set Set) {
	had := m.state.Pods[pod.UID].Containers
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		switch {
		case c.Name == before.Name:
			return set
		case isInit(pod, c) && !podinfo.IsSidecar(c):
			set = set.Union(had[c.Name])
		default:
			set = set.Minus(had[c.Name])
		}
	}
	return set
}

// Commit saves what was assigned to a pod.
func (m *Manager) Commit(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.state.Commit(pod.UID) {
		return
	}
	assigned := m.state.Pods[pod.UID]
	m.cfg.Log.Info("Exclusive CPUs assigned", "pod", assigned.Name, "cpus", assigned.all().String(), "shared",
		m.shared().String())
}

// choose chooses CPUs for one container.
func (m *Manager) choose(free Set, container string, n int, affinity topology.Mask) (Set, error) {
	if usable := len(m.all.Minus(m.cfg.Reserved)); n > usable {
		return nil, &Shortage{ReasonUnavailable,
			fmt.Sprintf("container %s requests %d exclusive CPUs, and this node has %d that are not reserved; request fewer",
				container, n, usable)}
	}
	if threads := m.cfg.Topology.ThreadsPerCore(); m.cfg.Options.FullPhysicalCPUs {
		if n%threads != 0 {
			return nil, &Shortage{ReasonSMTAlignment, fmt.Sprintf("container %s requests %d exclusive CPUs, and "+
				"full-pcpus-only assigns whole cores of %d; request a multiple of %d", container, n, threads, threads)}
		}
		free = m.wholeCores(free)
	}
	if n <= len(free) {
		near := m.near(free, affinity)
		taken := m.cfg.Topology.choose(near, min(n, len(near)), m.cfg.Options)
		return taken.Union(m.cfg.Topology.choose(free.Minus(taken), n-len(taken), m.cfg.Options)), nil
	}
	return nil, &Shortage{ReasonUnavailable,
		fmt.Sprintf("container %s requests %d exclusive CPUs, available %d; the pod starts when others have released theirs",
			container, n, len(free))}
}

// wholeCores returns the CPUs of cores of which all CPUs are free.
func (m *Manager) wholeCores(free Set) (whole Set) {
	sizes := m.cfg.Topology.sizes(byCore)
	for name, core := range m.cfg.Topology.groups(free, byCore) {
		if len(core) == sizes[name] {
			whole = whole.Union(core)
		}
	}
	return whole
}

func isInit(pod *v1.Pod, c *v1.Container) bool {
	for i := range pod.Spec.InitContainers {
		if &pod.Spec.InitContainers[i] == c {
			return true
		}
	}
	return false
}

// assigned returns all CPUs that are exclusive. mu is held, as by the functions below.
func (m *Manager) assigned() (set Set) {
	for _, pod := range m.state.Pods {
		set = set.Union(pod.all())
	}
	return set
}

// free returns the CPUs that can be assigned.
func (m *Manager) free() Set { return m.all.Minus(m.cfg.Reserved).Minus(m.assigned()) }

// shared returns the pool of all other containers. It is never empty: with strict reservation
// it falls back to the reserved CPUs once all others are exclusive, because a container needs
// one.
func (m *Manager) shared() Set {
	pool := m.all.Minus(m.assigned())
	if m.cfg.Options.StrictReservation {
		if strict := pool.Minus(m.cfg.Reserved); len(strict) > 0 {
			return strict
		}
	}
	return pool
}

// Release returns the CPUs of a pod of which nothing runs any more to the shared pool, and reports
// whether it had any.
func (m *Manager) Release(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Release(uid)
}

// Retain releases the CPUs of pods for which keep returns false: those that ended while no
// daemon ran.
func (m *Manager) Retain(keep func(types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Retain(keep)
}

// Trial implements topology.Provider.
func (m *Manager) Trial(ended func(types.UID) bool) topology.Provider {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Manager{cfg: m.cfg, all: m.all, state: m.state.Trial(ended), changed: m.changed}
}

// CPUs returns the CPUs of a container as the kernel's list, and whether they are its own.
func (m *Manager) CPUs(uid types.UID, container string) (cpus string, exclusive bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	set, exclusive := m.cpusOf(uid, container)
	return set.String(), exclusive
}

func (m *Manager) cpusOf(uid types.UID, container string) (Set, bool) {
	if own, ok := m.state.Pods[uid].Containers[container]; ok {
		return own, true
	}
	return m.shared(), false
}

// Assigned returns the exclusive CPUs of a container, empty if it has none.
func (m *Manager) Assigned(uid types.UID, container string) Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Pods[uid].Containers[container]
}

// Fixed reports whether the CPU of a pod's containers cannot change while they run: as at the
// kubelet that of no Guaranteed pod can.
func (m *Manager) Fixed(pod *v1.Pod) bool { return podinfo.QOSClass(pod) == v1.PodQOSGuaranteed }

// HasExclusive reports whether a container of the pod has exclusive CPUs.
func (m *Manager) HasExclusive(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.state.Pods[uid]
	return ok
}

// Assignable returns the CPUs that can be exclusive on this node.
func (m *Manager) Assignable() Set { return m.all.Minus(m.cfg.Reserved) }
