package cgroups

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/noderesources/noderesourcestest"
	"github.com/podstead/podstead/supervisor/podstart"
)

// manager returns err from each call, and records what it is asked.
type manager struct {
	err     error
	ensured *v1.Pod
	parent  string
	pods    []types.UID
}

func (m *manager) Ensure(_ context.Context, pod *v1.Pod, parent string) (string, error) {
	m.ensured, m.parent = pod, parent
	return "/pods/new", m.err
}
func (m *manager) Fits(*v1.Pod) error { return m.err }
func (m *manager) Destroy(_ context.Context, _ types.UID, parent string) error {
	m.parent = parent
	return m.err
}
func (m *manager) Pods() []types.UID { return slices.Clone(m.pods) }

func sandboxIn(parent string) cri.Sandbox {
	return cri.Sandbox{Ready: true, Annotations: map[string]string{cri.AnnotationCgroupParent: parent}}
}

// The cgroup gets the limits of a resize that is in progress, and what runs stays in the one that it has. Without
// one the pod does not start, and shows why.
func TestPrepare(t *testing.T) {
	m := &manager{}
	r := New(m, nil)
	start := func() *noderesources.Start {
		return &noderesources.Start{Pod: &v1.Pod{}, Limits: &v1.Pod{},
			Observed: &cri.PodStatus{Sandboxes: []cri.Sandbox{sandboxIn("/pods/u1")}}}
	}
	s := start()
	if refusal := r.Prepare(t.Context(), s); refusal != nil || !s.LimitsApplied || s.LimitsFault != nil ||
		s.Sandbox.CgroupParent != "/pods/new" || m.ensured != s.Limits || m.parent != "/pods/u1" {
		t.Errorf("%+v, %+v, of the sandbox in %s", refusal, s, m.parent)
	}
	m.err = errors.New("no space")
	s = start()
	if refusal := r.Prepare(t.Context(), s); refusal == nil || !refusal.Fault || refusal.Cause.Reason !=
		podstart.ReasonFailedCgroup || refusal.Event != noderesources.EachTime || s.LimitsApplied ||
		!errors.Is(s.LimitsFault, m.err) {
		t.Errorf("with a fault: %+v, %+v", refusal, s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if refusal := r.Prepare(ctx, start()); refusal == nil || refusal.Event != noderesources.NoEvent {
		t.Errorf("when the daemon ends: %+v", refusal)
	}
}

// A pod that never fits is refused while the revision before it runs, and so is a resize.
func TestFits(t *testing.T) {
	m := &manager{}
	r, candidate := New(m, nil), &noderesources.Candidate{Pod: &v1.Pod{}}
	if refusal, err := r.Preview(candidate), r.CheckResize(nil, &v1.Pod{}); refusal != nil || err != nil {
		t.Errorf("%+v, %v", refusal, err)
	}
	m.err = errors.New("requests too much")
	if refusal := r.Preview(candidate); refusal == nil || refusal.Cause.Reason != podstart.ReasonFailedCgroup {
		t.Errorf("%+v", refusal)
	}
	if err := r.CheckResize(nil, &v1.Pod{}); !errors.Is(err, m.err) {
		t.Error(err)
	}
}

// What is left of a pod is killed in the cgroup of its newest sandbox; the pod has not ended before.
func TestUnprepare(t *testing.T) {
	m := &manager{}
	r := New(m, func() *cri.Observed {
		return &cri.Observed{Own: []*cri.Pod{
			{UID: "u1", Sandboxes: []cri.Sandbox{sandboxIn("/pods/u1-new"), sandboxIn("/pods/u1-old")}}, {UID: "u2"}}}
	})
	for uid, want := range map[types.UID]string{"u1": "/pods/u1-new", "u2": "", "u3": ""} {
		if err := r.Unprepare(t.Context(), uid); err != nil || m.parent != want {
			t.Errorf("%s: in %q, %v", uid, m.parent, err)
		}
	}
	m.err = errors.New("a process cannot be killed")
	if err := r.Unprepare(t.Context(), "u1"); !errors.Is(err, m.err) {
		t.Error(err)
	}
}

// Only cgroups of pods that ended a moment ago count as left over: others may be those of another daemon.
func TestReappeared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{pods: []types.UID{"ended", "foreign"}}
		r := New(m, nil)
		reappeared := func(want ...types.UID) {
			t.Helper()
			if uids, again := r.Reappeared(); !slices.Equal(uids, want) || again != (len(want) > 0) {
				t.Errorf("%v (again: %v), want %v", uids, again, want)
			}
		}
		if found := r.Found(); !slices.Equal(found, m.pods) {
			t.Errorf("found %v", found)
		}
		reappeared()
		if err := r.Release(t.Context(), "ended", false); err != nil {
			t.Error(err)
		}
		reappeared("ended")
		time.Sleep(lateCgroups)
		reappeared("ended")
		time.Sleep(time.Second)
		reappeared()
	})
}

func TestMethods(t *testing.T) {
	if err := noderesourcestest.CheckMethods(New(&manager{}, nil)); err != nil {
		t.Error(err)
	}
}
