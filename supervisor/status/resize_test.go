package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/cri"
)

func memory(amount string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceMemory: resource.MustParse(amount), "example.com/dummy": resource.MustParse("1")}
}

// A container has its resources in every state, those that it has and those that are
// allocated to it.
func TestResourcesOfContainers(t *testing.T) {
	p := pod(v1.RestartPolicyNever)
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: memory("100M"), Limits: memory("100M")}
	bytes := func(n int64) cri.Resources {
		list := map[v1.ResourceName]int64{v1.ResourceMemory: n}
		return cri.Resources{Requests: list, Limits: list}
	}
	created := func(c cri.Container, n int64) cri.Container {
		r := bytes(n)
		c.Resources = &r
		return c
	}
	allocated := func(n int64) Record { return Record{Allocated: map[string]cri.Resources{"web": bytes(n)}} }
	resized := allocated(100e6)
	resized.Resized = map[string]ResizedRecord{
		"web": {ContainerID: "web-id", Actuated: cri.Actuated{Resources: bytes(100e6)}}}
	for name, c := range map[string]struct {
		in             Input
		has, allocated string
	}{
		"running": {
			Input{Observed: observed(created(running("web"), 100e6)), Record: allocated(100e6)}, "100M", "100M"},
		"resize in progress": {
			Input{Observed: observed(created(running("web"), 64<<20)), Record: allocated(100e6)}, "64Mi", "100M"},
		"resize deferred": {
			Input{Observed: observed(created(running("web"), 64<<20)), Record: allocated(64 << 20)}, "64Mi", "64Mi"},
		"resized": {Input{Observed: observed(created(running("web"), 64<<20)), Record: resized},
			"100M", "100M"},
		"exited": {
			Input{Observed: observed(created(exited("web", 0), 64<<20)), Record: allocated(100e6)}, "100M", "100M"},
		"removed after it has exited": {
			Input{Observed: observed(), Record: Record{Phase: v1.PodSucceeded, Allocated: allocated(64 << 20).Allocated},
				Previous: &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
					{Name: "web", ContainerID: "web-id", State: endState(exited("web", 0))}}}}, "64Mi", "64Mi"},
		"of a version that recorded nothing": {Input{Observed: observed(running("web"))}, "100M", "100M"},
		"recorded by the container only":     {Input{Observed: observed(created(running("web"), 64<<20))}, "64Mi", "64Mi"},
		"not created":                        {Input{Observed: observed(), Record: allocated(100e6)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Pod, c.in.Now = p, now
			got := status(Generate(c.in), "web")
			if c.has == "" {
				if got.Resources != nil || got.AllocatedResources != nil {
					t.Errorf("%+v, %v", got.Resources, got.AllocatedResources)
				}
				return
			}
			if diff := cmp.Diff(&v1.ResourceRequirements{Requests: memory(c.has), Limits: memory(c.has)},
				got.Resources); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(memory(c.allocated), got.AllocatedResources); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A container without requests and limits has an empty value, as at the kubelet.
func TestResourcesOfBestEffortContainer(t *testing.T) {
	got := status(Generate(Input{Pod: pod(v1.RestartPolicyAlways), Observed: observed(running("web")), Now: now}), "web")
	if diff := cmp.Diff(&v1.ResourceRequirements{}, got.Resources); diff != "" {
		t.Error(diff)
	}
}

func TestResizeConditions(t *testing.T) {
	resize := Resize{
		Pending:    &ResizeStep{Cause{v1.PodReasonDeferred, "later"}, 3},
		InProgress: &ResizeStep{Cause{v1.PodReasonError, "in use"}, 2},
	}
	p := pod(v1.RestartPolicyNever)
	p.Generation = 4
	st := Generate(Input{Pod: p, Observed: observed(running("web")), Resize: resize, Now: now})
	pending, progress, ready := condition(st, v1.PodResizePending), condition(st, v1.PodResizeInProgress),
		condition(st, v1.PodReady)
	if pending == nil || pending.Reason != v1.PodReasonDeferred || pending.Message != "later" ||
		pending.ObservedGeneration != 3 ||
		progress == nil || progress.Reason != v1.PodReasonError || progress.Message != "in use" ||
		progress.ObservedGeneration != 2 ||
		ready.ObservedGeneration != 4 || st.ObservedGeneration != 4 {
		t.Errorf("%+v", st.Conditions)
	}
	st = Generate(Input{Pod: p, Observed: observed(exited("web", 0)), Resize: resize, Now: now})
	if condition(st, v1.PodResizePending) != nil || condition(st, v1.PodResizeInProgress) != nil {
		t.Errorf("of an ended pod: %+v", st.Conditions)
	}
}

// A pod with resources as a whole has those of its cgroup, and those that are allocated to it.
func TestResourcesOfPod(t *testing.T) {
	list := func(cpu int64, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI),
			v1.ResourceMemory: resource.MustParse(memory)}
	}
	resources := func(cpu, memory int64) cri.Resources {
		values := map[v1.ResourceName]int64{v1.ResourceCPU: cpu, v1.ResourceMemory: memory << 20}
		return cri.Resources{Requests: values, Limits: values}
	}
	has := resources(100, 64)
	allocated := Record{Allocated: map[string]cri.Resources{"": resources(200, 32)}}
	resizing := Record{Allocated: allocated.Allocated, CgroupResources: &has}
	running, rebooted := observed(running("web")), observed(exited("web", 255))
	rebooted.Sandboxes[0].Ready = false
	for name, c := range map[string]struct {
		in             Input
		has, allocated v1.ResourceList
	}{
		"settled": {Input{Observed: running,
			Record: Record{Allocated: map[string]cri.Resources{"": resources(300, 96)}}}, list(300, "96Mi"), list(300, "96Mi")},
		"resize in progress": {Input{Observed: running, Record: resizing}, list(100, "64Mi"),
			list(200, "32Mi")},
		"resize deferred": {
			Input{Observed: running, Record: Record{Allocated: map[string]cri.Resources{"": has}, CgroupResources: &has}},
			list(100, "64Mi"), list(100, "64Mi")},
		"the machine was rebooted": {Input{Observed: rebooted, Record: resizing}, list(200, "32Mi"),
			list(200, "32Mi")},
		"not started": {Input{Observed: observed(), Record: allocated}, list(200, "32Mi"),
			list(200, "32Mi")},
		"ended": {
			Input{Observed: observed(), Record: Record{Phase: v1.PodSucceeded, Allocated: allocated.Allocated,
				CgroupResources: &has}}, list(200, "32Mi"), list(200, "32Mi")},
		"of a version that recorded nothing": {Input{Observed: running}, list(300, "96Mi"), list(300, "96Mi")},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(v1.RestartPolicyAlways)
			p.Spec.Resources = &v1.ResourceRequirements{Requests: list(300, "96Mi"), Limits: list(300, "96Mi")}
			before := p.DeepCopy()
			c.in.Pod, c.in.Now = p, now
			st := Generate(c.in)
			if diff := cmp.Diff(&v1.ResourceRequirements{Requests: c.has, Limits: c.has}, st.Resources); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.allocated, st.AllocatedResources); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, p); diff != "" {
				t.Errorf("the pod was changed: %s", diff)
			}
		})
	}
	// A request that only a container has is in both; without spec.resources there are none.
	p := pod(v1.RestartPolicyNever)
	p.Spec.Containers[0].Resources.Requests = list(50, "16Mi")
	if st := Generate(Input{Pod: p, Observed: running, Now: now}); st.Resources != nil || st.AllocatedResources != nil {
		t.Errorf("%+v, %v", st.Resources, st.AllocatedResources)
	}
	p.Spec.Resources = &v1.ResourceRequirements{Limits: list(100, "64Mi")}
	st := Generate(Input{Pod: p, Observed: running, Now: now})
	if diff := cmp.Diff(&v1.ResourceRequirements{Requests: list(50, "16Mi"), Limits: list(100, "64Mi")},
		st.Resources); diff != "" {
		t.Error(diff)
	}
}
