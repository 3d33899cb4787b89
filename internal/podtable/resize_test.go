package podtable

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func resized(kind v1.PodConditionType, reason, message string) *v1.Pod {
	amounts := func(cpu, memory string) v1.ResourceRequirements {
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
		return v1.ResourceRequirements{Requests: list, Limits: list}
	}
	spec, has := amounts("1", "64Mi"), amounts("1000m", "64Mi")
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a", Resources: spec}}}}
	p.Status.ContainerStatuses = []v1.ContainerStatus{
		{Name: "a", Resources: &has, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
	if kind != "" {
		p.Status.Conditions = []v1.PodCondition{{Type: kind, Status: v1.ConditionTrue, Reason: reason, Message: message}}
	}
	return p
}

func TestResize(t *testing.T) {
	for _, c := range []struct {
		pod              *v1.Pod
		text             string
		infeasible, done bool
	}{
		{resized("", "", ""), "", false, true},
		{resized(v1.PodResizePending, "Infeasible", "8 cpus, 2 exist"), "its resize is Infeasible: 8 cpus, 2 exist", true, false},
		{resized(v1.PodResizePending, "Deferred", "no cpu"), "its resize is Deferred: no cpu", false, false},
		{resized(v1.PodResizeInProgress, "Error", "in use"), "its resize failed, retrying: in use", false, false},
		{resized(v1.PodResizeInProgress, "", ""), "", false, false},
	} {
		if text, infeasible, done := Resize(c.pod), Infeasible(c.pod), Resized(c.pod); text != c.text ||
			infeasible != c.infeasible || done != c.done {
			t.Errorf("%q %t %t, want %+v", text, infeasible, done, c)
		}
	}
}

// A status that has no condition of the resize yet shows other resources than the manifest; one that shows none
// says nothing.
func TestResizedBeforeTheCondition(t *testing.T) {
	for name, change := range map[string]func(p *v1.Pod){
		"a limit":   func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse("2") },
		"a request": func(p *v1.Pod) { p.Status.ContainerStatuses[0].Resources.Requests = nil },
		"the pod's limit": func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{
				Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}}
			p.Status.Resources = &v1.ResourceRequirements{}
		},
	} {
		p := resized("", "", "")
		change(p)
		if Resized(p) {
			t.Errorf("%s: resized", name)
		}
	}
	p := resized("", "", "")
	p.Status.ContainerStatuses[0].Resources = nil
	if !Resized(p) {
		t.Error("not resized")
	}
}
