package devices

import (
	"context"
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/device"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/noderesources/noderesourcestest"
)

const gpu = "example.com/gpu"

// manager has a device for no pod if it is short, and returns err from what may take its time.
type manager struct {
	short     *device.Unavailable
	err       error
	assigned  device.Assignment
	asked     []string
	replaced  types.UID
	retained  int
	withdrawn types.UID
}

func (m *manager) Check(*v1.Pod) *device.Unavailable {
	m.asked = append(m.asked, "Check")
	return m.short
}
func (m *manager) Preview(_ *v1.Pod, replaced types.UID) *device.Unavailable {
	m.replaced = replaced
	return m.short
}
func (m *manager) Withdraw(uid types.UID) { m.withdrawn = uid }
func (m *manager) Allocate(context.Context, *v1.Pod) error {
	m.asked = append(m.asked, "Allocate")
	return m.err
}
func (m *manager) Container(context.Context, *v1.Pod, *v1.Container) (device.Assignment, error) {
	return m.assigned, m.err
}
func (m *manager) Release(uid types.UID)                         { m.asked = append(m.asked, "Release "+string(uid)) }
func (m *manager) Retain(func(types.UID) bool)                   { m.retained++ }
func (*manager) Status(types.UID) map[string][]v1.ResourceStatus { return nil }
func (*manager) Changed() <-chan struct{}                        { return nil }
func (*manager) TakeChanged() []types.UID                        { return []types.UID{"u1"} }

// requesting returns a pod of a source that requests a device.
func requesting(source podinfo.Source) *v1.Pod {
	pod := &v1.Pod{}
	pod.Annotations = map[string]string{podinfo.AnnotationSource: string(source)}
	pod.Spec.Containers = []v1.Container{{Name: "app",
		Resources: v1.ResourceRequirements{Limits: v1.ResourceList{gpu: resource.MustParse("1")}}}}
	return pod
}

// A pod waits for its devices with the reason of other resources; one of an API server is rejected with the kubelet's.
func TestShortage(t *testing.T) {
	m := &manager{}
	r := New(m)
	if refusal := r.Queue(&noderesources.Start{Pod: &v1.Pod{}}); refusal != nil || m.asked != nil {
		t.Errorf("a pod without devices: %+v, asked %v", refusal, m.asked)
	}
	if refusal := r.Queue(&noderesources.Start{Pod: requesting(podinfo.SourceFile)}); refusal != nil {
		t.Errorf("%+v", refusal)
	}
	m.short = &device.Unavailable{Resource: gpu, Requested: 1, Cause: "it is in use", Remedy: "wait"}
	for source, reason := range map[podinfo.Source]string{podinfo.SourceFile: "OutOf" + gpu,
		podinfo.SourceAPI: ReasonUnexpectedAdmission} {
		pod := requesting(source)
		for _, refusal := range []*noderesources.Refusal{r.Queue(&noderesources.Start{Pod: pod}),
			r.Preview(&noderesources.Candidate{Pod: pod, Replaced: "u0"})} {
			if refusal == nil || !refusal.Final || refusal.Cause.Reason != reason || refusal.GivesBack {
				t.Errorf("%s: %+v", source, refusal)
			}
		}
	}
	if m.replaced != "u0" {
		t.Errorf("previewed as if %q ended", m.replaced)
	}
	if r.Withdraw("u1"); m.withdrawn != "u1" {
		t.Error("the pod keeps its turn")
	}
}

// Devices are allocated to a pod that does not run. If another pod was faster, what else was reserved is given back;
// if the plugin fails, a static pod tries again and one of an API server is rejected.
func TestPrepare(t *testing.T) {
	m := &manager{}
	r := New(m)
	start := func(source podinfo.Source) *noderesources.Start {
		return &noderesources.Start{Pod: requesting(source), Observed: &cri.PodStatus{}}
	}
	running := start(podinfo.SourceFile)
	running.Observed.Sandboxes = []cri.Sandbox{{Ready: true}}
	if refusal := r.Prepare(t.Context(), running); refusal != nil || m.asked != nil {
		t.Errorf("a pod that runs: %+v, asked %v", refusal, m.asked)
	}
	if refusal := r.Prepare(t.Context(), start(podinfo.SourceFile)); refusal != nil ||
		!slices.Equal(m.asked, []string{"Allocate"}) {
		t.Errorf("%+v, asked %v", refusal, m.asked)
	}
	for name, c := range map[string]struct {
		err              error
		source           podinfo.Source
		reason           string
		givesBack, fault bool
	}{
		"taken":             {&device.Unavailable{Resource: gpu}, podinfo.SourceFile, "OutOf" + gpu, true, false},
		"taken, API":        {&device.Unavailable{Resource: gpu}, podinfo.SourceAPI, ReasonUnexpectedAdmission, true, false},
		"plugin fails":      {errors.New("fault"), podinfo.SourceFile, ReasonUnexpectedAdmission, false, true},
		"plugin fails, API": {errors.New("fault"), podinfo.SourceAPI, ReasonUnexpectedAdmission, true, false},
	} {
		m.err = c.err
		refusal := r.Prepare(t.Context(), start(c.source))
		if refusal == nil || refusal.Cause.Reason != c.reason || refusal.GivesBack != c.givesBack ||
			refusal.Fault != c.fault ||
			refusal.Final == c.fault {
			t.Errorf("%s: %+v", name, refusal)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if refusal := r.Prepare(ctx, start(podinfo.SourceFile)); refusal == nil || refusal.Cause != nil {
		t.Errorf("when the daemon ends: %+v", refusal)
	}
}

// The container's own variables and mounts come after those of devices, so that they take precedence.
func TestContribute(t *testing.T) {
	m := &manager{assigned: device.Assignment{
		Env: map[string]string{"B": "device", "A": "device", "OWN": "device"}, CDI: []string{"example.com/gpu=0"},
		Mounts:      []device.Mount{{HostPath: "/lib/gpu", ContainerPath: "/lib/gpu", ReadOnly: true}},
		Nodes:       []device.Node{{HostPath: "/dev/gpu0", ContainerPath: "/dev/gpu0", Permissions: "rw"}},
		Annotations: map[string]string{"gpu": "0"},
	}}
	in := &cri.Inputs{Env: []cri.EnvVar{{Name: "OWN", Value: "own"}}, Mounts: []cri.Mount{{ContainerPath: "/data"}}}
	if err := New(m).Contribute(t.Context(), &v1.Pod{}, &v1.Container{}, in); err != nil {
		t.Fatal(err)
	}
	if want := []cri.EnvVar{{Name: "A", Value: "device"}, {Name: "B", Value: "device"},
		{Name: "OWN", Value: "own"}}; !slices.Equal(in.Env, want) {
		t.Errorf("environment %v", in.Env)
	}
	if len(in.Mounts) != 2 || in.Mounts[0].HostPath != "/lib/gpu" || !in.Mounts[0].ReadOnly ||
		in.Mounts[1].ContainerPath != "/data" {
		t.Errorf("mounts %+v", in.Mounts)
	}
	if !slices.Equal(in.Devices, m.assigned.Nodes) || !slices.Equal(in.CDIDevices, m.assigned.CDI) ||
		in.Annotations["gpu"] != "0" {
		t.Errorf("%+v", in)
	}
	m.err = errors.New("fault")
	if err := New(m).Contribute(t.Context(), &v1.Pod{}, &v1.Container{}, in); !errors.Is(err, m.err) {
		t.Error(err)
	}
}

// Devices are free again at the end of a pod; a pod whose source has not delivered keeps them.
func TestGivenBack(t *testing.T) {
	m := &manager{}
	r := New(m)
	if err := r.Release(t.Context(), "u1", false); err != nil || !slices.Equal(m.asked, []string{"Release u1"}) {
		t.Errorf("%v, %v", m.asked, err)
	}
	if r.Retain(nil, false); m.retained != 0 {
		t.Error("pods whose source has not delivered lose their devices")
	}
	if r.Retain(nil, true); m.retained != 1 {
		t.Error("pods that ended while no daemon ran keep their devices")
	}
	if uids, previews := r.TakeChanged(); !slices.Equal(uids, []types.UID{"u1"}) || !previews {
		t.Errorf("%v, %v", uids, previews)
	}
}

func TestMethods(t *testing.T) {
	if err := noderesourcestest.CheckMethods(New(&manager{})); err != nil {
		t.Error(err)
	}
}
