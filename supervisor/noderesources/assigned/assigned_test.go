package assigned

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/noderesources/noderesourcestest"
)

// manager returns err for each pod, and records what it is asked.
type manager struct {
	cri.Assigned
	err      error
	ended    []types.UID
	first    []*v1.Pod
	released []types.UID
	retained bool
	fixed    v1.ResourceName
}

func (m *manager) Assign(*v1.Pod) error { return m.err }
func (m *manager) Preview(_ *v1.Pod, ended []types.UID, first []*v1.Pod) error {
	m.ended, m.first = ended, first
	return m.err
}
func (m *manager) Fixed(_ *v1.Pod, name v1.ResourceName) bool { return name == m.fixed }
func (m *manager) Release(uid types.UID)                      { m.released = append(m.released, uid) }
func (m *manager) Retain(func(types.UID) bool)                { m.retained = true }
func (*manager) Changed() <-chan struct{}                     { return nil }

type shortage struct{ error }

func (shortage) Reason() string { return "NoCPUs" }

// A shortage is final for a pod of a cluster and shown with its reason; another error is retried and shows nothing.
func TestRefusal(t *testing.T) {
	m := &manager{}
	r := New(m)
	candidate := &noderesources.Candidate{Pod: &v1.Pod{}, Ended: []types.UID{"u1"}, First: []*v1.Pod{{}}}
	each := func() map[string]*noderesources.Refusal {
		return map[string]*noderesources.Refusal{"Preview": r.Preview(candidate),
			"Reserve": r.Reserve(&noderesources.Start{})}
	}
	for call, refusal := range each() {
		if refusal != nil {
			t.Errorf("%s: %+v", call, refusal)
		}
	}
	if !slices.Equal(m.ended, candidate.Ended) || len(m.first) != 1 {
		t.Errorf("previewed after the end of %v and the start of %v", m.ended, m.first)
	}
	m.err = shortage{errors.New("requests 2, available 1")}
	for call, refusal := range each() {
		if refusal == nil || !refusal.Final || refusal.Cause == nil || refusal.Cause.Reason != "NoCPUs" ||
			refusal.Cause.Message != "requests 2, available 1" {
			t.Errorf("%s with a shortage: %+v", call, refusal)
		}
	}
	m.err = errors.New("the disk is full")
	for call, refusal := range each() {
		if refusal == nil || refusal.Final || refusal.Cause != nil || !errors.Is(refusal.Result.Err, m.err) {
			t.Errorf("%s with a fault: %+v", call, refusal)
		}
	}
}

// What is assigned is contributed to each sync, and given back at the end of the pod, or in housekeeping before all
// sources have delivered.
func TestGivenBack(t *testing.T) {
	m := &manager{}
	r, start := New(m), &noderesources.Start{}
	if refusal := r.Prepare(t.Context(), start); refusal != nil || start.Assigned != cri.Assigned(m) {
		t.Errorf("%v, contributed %v", refusal, start.Assigned)
	}
	if err := r.Release(t.Context(), "u1", true); err != nil || !slices.Equal(m.released, []types.UID{"u1"}) {
		t.Errorf("released %v, %v", m.released, err)
	}
	r.Retain(func(types.UID) bool { return false }, false)
	if !m.retained {
		t.Error("nothing is given back while a source has not delivered")
	}
	if _, previews := r.TakeChanged(); !previews {
		t.Error("a refused revision is not previewed again after something was released")
	}
}

// The amounts of a resource that is assigned cannot be resized; others can.
func TestCheckResize(t *testing.T) {
	pod := func(cpu, mem string) *v1.Pod {
		has := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(mem)}
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app",
			Resources: v1.ResourceRequirements{Requests: has, Limits: has}}}}}
	}
	before := pod("2", "1Gi")
	for _, c := range []struct {
		fixed v1.ResourceName
		wants *v1.Pod
		want  string
	}{
		{"", pod("3", "2Gi"), ""},
		{v1.ResourceCPU, pod("2000m", "2Gi"), ""},
		{v1.ResourceCPU, pod("3", "1Gi"), "cpuManagerPolicy"},
		{v1.ResourceMemory, pod("3", "1024Mi"), ""},
		{v1.ResourceMemory, pod("2", "2Gi"), "memoryManagerPolicy"},
	} {
		err := New(&manager{fixed: c.fixed}).CheckResize(before, c.wants)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q is fixed: %v, want %q", c.fixed, err, c.want)
		}
	}
}

func TestMethods(t *testing.T) {
	if err := noderesourcestest.CheckMethods(New(&manager{})); err != nil {
		t.Error(err)
	}
}
