package topology

import (
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

const gpu = v1.ResourceName("example.com/gpu")

// slots assigns one slot of a NUMA node to each container.
type slots struct {
	free     map[int]int
	has      map[types.UID]map[string]int
	commits  []types.UID
	released []types.UID
}

func (s *slots) Hints(pod *v1.Pod, c *v1.Container) map[v1.ResourceName][]Hint {
	n := 1
	if c == nil {
		n = len(pod.Spec.Containers)
	}
	count := func(m Mask) (free int) {
		for _, node := range m.Nodes() {
			free += s.free[node]
		}
		return free
	}
	return map[v1.ResourceName][]Hint{
		v1.ResourceCPU: HintsFor(two.Mask(), func(m Mask) bool { return count(m) >= n }, func(Mask) bool { return true })}
}

func (s *slots) Assign(pod *v1.Pod, c *v1.Container, affinity Mask) error {
	for node := range 2 {
		if s.free[node] > 0 && (affinity == 0 || affinity.Has(node)) {
			s.free[node]--
			if s.has[pod.UID] == nil {
				s.has[pod.UID] = map[string]int{}
			}
			s.has[pod.UID][c.Name] = node
			return nil
		}
	}
	return errors.New("no slot")
}
func (s *slots) Commit(pod *v1.Pod) { s.commits = append(s.commits, pod.UID) }
func (s *slots) Release(uid types.UID) bool {
	had := len(s.has[uid]) > 0
	for _, node := range s.has[uid] {
		s.free[node]++
	}
	delete(s.has, uid)
	s.released = append(s.released, uid)
	return had
}
func (s *slots) Retain(keep func(types.UID) bool) {
	for uid := range s.has {
		if !keep(uid) {
			s.Release(uid)
		}
	}
}

func (s *slots) Trial(ended func(types.UID) bool) Provider {
	trial := &slots{free: maps.Clone(s.free), has: maps.Clone(s.has)}
	for uid := range s.has {
		if ended(uid) {
			trial.Release(uid)
		}
	}
	return trial
}

// gpus has devices on NUMA nodes. None is allocated yet.
type gpus struct{ nodes [][]int }

func (g gpus) Nodes(v1.ResourceName, ...types.UID) (all, free [][]int) { return g.nodes, g.nodes }
func (g gpus) Requests(pod *v1.Pod) map[v1.ResourceName]int64 {
	all := map[v1.ResourceName]int64{}
	for _, c := range pod.Spec.Containers {
		if n, ok := c.Resources.Limits[gpu]; ok {
			all[gpu] += n.Value()
		}
	}
	return all
}
func (gpus) Await(types.UID)      {}
func (gpus) Holds(types.UID) bool { return false }

func testPod(uid types.UID, containers ...int64) *v1.Pod {
	pod := &v1.Pod{}
	pod.UID = uid
	for i, n := range containers {
		c := v1.Container{Name: string(rune('a' + i))}
		if n > 0 {
			c.Resources.Limits = v1.ResourceList{gpu: *resource.NewQuantity(n, resource.DecimalSI)}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

func open(policy, scope string, free map[int]int, devices [][]int) (*Manager, *slots) {
	s := &slots{free: free, has: map[types.UID]map[string]int{}}
	return New(Config{Policy: policy, Scope: scope, Options: Options{MaxNodes: 8}, Nodes: two, Providers: []Provider{s},
		Devices: gpus{devices}, Log: slog.New(slog.DiscardHandler)}), s
}

// Each container gets its slot from the NUMA node of its device. A pod that cannot be aligned has
// nothing, and the devices of a pod that starts are not hinted to another one.
func TestAssignAligned(t *testing.T) {
	m, s := open(PolicySingleNUMANode, ScopeContainer, map[int]int{0: 2, 1: 2}, [][]int{{1}, {0}})
	if err := m.Assign(testPod("p", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if has := s.has["p"]; has["a"] != 0 || has["b"] != 1 || m.Affinity("p", "b") != NewMask(1) || len(s.commits) != 1 {
		t.Errorf("slots %v, affinity of b %s, commits %v", has, m.Affinity("p", "b"), s.commits)
	}
	var denied *AffinityError
	if err := m.Assign(testPod("late", 0, 1)); !errors.As(err, &denied) || denied.Reason() != "TopologyAffinityError" ||
		!strings.HasPrefix(err.Error(), "Resources cannot be allocated with Topology locality: no NUMA nodes are free that "+
			"serve cpu, example.com/gpu of container b together") {
		t.Errorf("no device is left: %v", err)
	}
	if len(s.has["late"]) > 0 || s.free[0]+s.free[1] != 2 {
		t.Errorf("a rejected pod has %v, free are %v", s.has["late"], s.free)
	}
	m.Release("p")
	if err := m.Assign(testPod("late", 0, 1)); err != nil || m.Affinity("p", "b") != 0 {
		t.Error(err)
	}
	m.Retain(func(types.UID) bool { return false })
	if len(m.claims)+len(m.affinity)+len(s.has) > 0 {
		t.Errorf("left are %v, %v, %v", m.claims, m.affinity, s.has)
	}
}

// With the scope pod all containers are on the same NUMA nodes.
func TestScopePod(t *testing.T) {
	for policy, want := range map[string]bool{PolicySingleNUMANode: false, PolicyRestricted: false, PolicyBestEffort: true,
		PolicyNone: true} {
		m, _ := open(policy, ScopePod, map[int]int{0: 1, 1: 1}, nil)
		if err := m.Assign(testPod("p", 0, 0)); (err == nil) != want {
			t.Errorf("%s, two slots on two nodes: %v", policy, err)
		}
	}
	m, s := open(PolicySingleNUMANode, ScopePod, map[int]int{0: 1, 1: 2}, [][]int{{0}, {1}})
	if err := m.Assign(testPod("p", 0, 1)); err != nil || s.has["p"]["a"] != 1 || s.has["p"]["b"] != 1 {
		t.Errorf("%v, slots %v", err, s.has)
	}
}

// What a pod has from an earlier run may be what cannot be aligned under another policy: it gets other
// resources at once.
func TestAlignedAfterAnotherPolicy(t *testing.T) {
	m, s := open(PolicySingleNUMANode, ScopePod, map[int]int{0: 1, 1: 2}, nil)
	s.has["p"] = map[string]int{"a": 0, "b": 1} // the slots of both are not free
	s.free = map[int]int{0: 0, 1: 1}
	if err := m.Assign(testPod("p", 0, 0)); err != nil {
		t.Fatal(err)
	}
	if has := s.has["p"]; has["a"] != 1 || has["b"] != 1 || len(s.commits) != 1 {
		t.Errorf("slots %v, commits %v", has, s.commits)
	}
	if err := m.Assign(testPod("late", 0, 0)); err == nil || len(s.has["late"]) > 0 || s.free[0] != 1 || s.free[1] != 0 {
		t.Errorf("no node has two slots: %v, slots %v, free %v", err, s.has["late"], s.free)
	}
}

// A preview is as if the pod that is replaced had ended and those before it had started. It assigns
// nothing, and is asked for again when something is released.
func TestPreview(t *testing.T) {
	m, s := open(PolicySingleNUMANode, ScopePod, map[int]int{0: 2, 1: 1}, nil)
	if err := m.Assign(testPod("old", 0, 0)); err != nil {
		t.Fatal(err)
	}
	revision, other := testPod("new", 0, 0), testPod("other", 0, 0)
	if err := m.Preview(revision, nil, nil); err == nil {
		t.Error("a NUMA node has two slots although another pod has them")
	}
	if err := m.Preview(revision, []types.UID{"old"}, nil); err != nil {
		t.Error(err)
	}
	if err := m.Preview(revision, []types.UID{"old"}, []*v1.Pod{other}); err == nil {
		t.Error("two pods have the same slots")
	}
	if len(s.has["old"]) != 2 || len(s.has) != 1 || len(s.commits) != 1 || m.Affinity("new", "a") != 0 {
		t.Errorf("after the previews %v are assigned", s.has)
	}
	select {
	case <-m.Changed():
		t.Error("a preview released something")
	default:
	}
	m.Release("old")
	select {
	case <-m.Changed():
	default:
		t.Error("a release was not notified")
	}
}
