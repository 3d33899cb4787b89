package claims

import (
	"context"
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/noderesources/noderesourcestest"
)

// manager returns err from each call, and counts them.
type manager struct {
	err                error
	prepared, retained int
	cdi                []string
}

func (m *manager) Prepare(context.Context, *v1.Pod) error {
	m.prepared++
	return m.err
}
func (m *manager) Unprepare(context.Context, types.UID) error          { return m.err }
func (m *manager) Retain(func(types.UID) bool)                         { m.retained++ }
func (m *manager) CDIDevices(*v1.Pod, *v1.Container) ([]string, error) { return m.cdi, m.err }
func (*manager) Changed() <-chan struct{}                              { return nil }
func (*manager) TakeChanged() []types.UID                              { return []types.UID{"u1"} }
func claiming() *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "gpu"}}}}
}

// Claims are prepared for a pod that has some and does not run; if they cannot be, the pod waits and shows why.
func TestPrepare(t *testing.T) {
	m := &manager{}
	r := New(m)
	running := &cri.PodStatus{Sandboxes: []cri.Sandbox{{Ready: true}}}
	for _, s := range []*noderesources.Start{{Pod: claiming(), Observed: running},
		{Pod: &v1.Pod{}, Observed: &cri.PodStatus{}}} {
		if refusal := r.Prepare(t.Context(), s); refusal != nil || m.prepared != 0 {
			t.Errorf("prepared %d times, %+v", m.prepared, refusal)
		}
	}
	start := &noderesources.Start{Pod: claiming(), Observed: &cri.PodStatus{}}
	if refusal := r.Prepare(t.Context(), start); refusal != nil || m.prepared != 1 {
		t.Errorf("prepared %d times, %+v", m.prepared, refusal)
	}
	m.err = errors.New("no driver")
	if refusal := r.Prepare(t.Context(), start); refusal == nil || !refusal.Fault ||
		refusal.Cause.Reason != ReasonFailedPrepare || !errors.Is(refusal.Result.Err, m.err) {
		t.Errorf("%+v", refusal)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if refusal := r.Prepare(ctx, start); refusal == nil || refusal.Cause != nil || !errors.Is(refusal.Result.Err, m.err) {
		t.Errorf("when the daemon ends: %+v", refusal)
	}
}

// A container gets each device once, also one that it has from a device plugin, and shares no list.
func TestContribute(t *testing.T) {
	m := &manager{cdi: []string{"example.com/gpu=0", "example.com/gpu=1"}}
	r, shared := New(m), make([]string, 1, 4)
	shared[0] = "example.com/gpu=0"
	in := &cri.Inputs{CDIDevices: shared}
	if err := r.Contribute(t.Context(), claiming(), &v1.Container{}, in); err != nil ||
		!slices.Equal(in.CDIDevices, m.cdi) {
		t.Errorf("%v, %v", in.CDIDevices, err)
	}
	if rest := shared[:2]; rest[1] != "" {
		t.Errorf("%q was written to the list of another container", rest[1])
	}
	m.err = errors.New("not prepared")
	if err := r.Contribute(t.Context(), claiming(), &v1.Container{}, in); !errors.Is(err, m.err) {
		t.Error(err)
	}
}

// Claims are given back when nothing of the pod runs; a pod whose source has not delivered keeps them.
func TestGivenBack(t *testing.T) {
	m := &manager{}
	r := New(m)
	r.Retain(nil, false)
	if m.retained != 0 {
		t.Error("pods whose source has not delivered lose their claims")
	}
	if r.Retain(nil, true); m.retained != 1 {
		t.Error("pods that ended while no daemon ran keep their claims")
	}
	m.err = errors.New("no driver")
	if err := r.Unprepare(t.Context(), "u1"); !errors.Is(err, m.err) {
		t.Error(err)
	}
	if uids, previews := r.TakeChanged(); !slices.Equal(uids, []types.UID{"u1"}) || previews {
		t.Errorf("%v, %v", uids, previews)
	}
}

func TestMethods(t *testing.T) {
	if err := noderesourcestest.CheckMethods(New(&manager{})); err != nil {
		t.Error(err)
	}
}
