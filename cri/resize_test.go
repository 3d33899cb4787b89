package cri

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// resizedPod returns a pod with one container, created with "1 1Gi" and "2
// 2Gi".
func resizedPod(request, limit string, policies ...v1.ContainerResizePolicy) (*v1.Pod, *PodStatus) {
	pod := desiredPod(always, one)
	c := &pod.Spec.Containers[0]
	c.Resources = requirements("1 1Gi", "2 2Gi")
	made := ResourcesOf(&c.Resources)
	hash := Hash(c)
	l := &observedPod{}
	l.sandbox("s0", true).in("a0", "a", StateRunning, func(o *Container) { o.Hash, o.Resources = hash, &made })
	c.Resources, c.ResizePolicy = requirements(request, limit), policies
	return pod, &l.status
}

func TestResizes(t *testing.T) {
	restart := func(name v1.ResourceName) v1.ContainerResizePolicy {
		return v1.ContainerResizePolicy{ResourceName: name, RestartPolicy: v1.RestartContainer}
	}
	for name, tc := range map[string]struct {
		request, limit string
		policies       []v1.ContainerResizePolicy
		actuated       map[string]Actuated
		found, restart bool
	}{
		"nothing changed": {request: "1000m 1Gi", limit: "2 2048Mi"},
		"cpu":             {request: "1 1Gi", limit: "3 2Gi", found: true},
		"cpu, memory would": {request: "1 1Gi", limit: "3 2Gi", policies: []v1.ContainerResizePolicy{restart("memory")},
			found: true},
		"memory restarts": {request: "1 1Gi", limit: "2 3Gi", policies: []v1.ContainerResizePolicy{restart("memory")},
			found: true, restart: true},
		"limit removed": {request: "1 1Gi", limit: "2 -", found: true},
		"already actuated": {request: "1 1Gi", limit: "3 2Gi",
			actuated: map[string]Actuated{"a0": {Resources: resourcesOf("1 1Gi", "3 2Gi")}}},
		"other instance actuated": {request: "1 1Gi", limit: "3 2Gi",
			actuated: map[string]Actuated{"a9": {Resources: resourcesOf("1 1Gi", "3 2Gi")}}, found: true},
		"changed back": {request: "1 1Gi", limit: "2 2Gi",
			actuated: map[string]Actuated{"a0": {Resources: resourcesOf("1 1Gi", "3 2Gi")}}, found: true},
		"partly actuated": {request: "1 1Gi", limit: "2 2Gi",
			actuated: map[string]Actuated{"a0": {Resources: resourcesOf("1 1Gi", "2 2Gi"), Uncertain: true}}, found: true},
	} {
		pod, status := resizedPod(tc.request, tc.limit, tc.policies...)
		got := Resizes(pod, status, tc.actuated)
		if (len(got) == 1) != tc.found || tc.found &&
			(got[0].ID != "a0" || got[0].Restart != tc.restart || !got[0].To.Equal(resourcesOf(tc.request, tc.limit))) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		a := Plan(PlanInput{Pod: pod, Status: status, Resizes: got})
		if (len(a.Resize) == 1) != (tc.found && !tc.restart) || (len(a.Kill) == 1) != tc.restart ||
			(len(a.Start) == 1) != tc.restart || a.KillPod {
			t.Errorf("%s: plan %+v", name, a)
		}
		// A resize that is not to be actuated now changes nothing.
		if a := Plan(PlanInput{Pod: pod, Status: status}); len(a.Resize)+len(a.Kill)+len(a.Start) > 0 || a.KillPod {
			t.Errorf("%s: plan without the resize: %+v", name, a)
		}
	}
}

// A limit of the pod is the limit of a container without its own, and follows it. One that a container
// does not have yet, because an earlier version created it, does not restart it.
func TestResizesOfInheritedLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		own, before, after string // limits of the container, and of its pod at its creation and now
		old                bool   // created by a version that passed on no limits
		policy             v1.ResourceResizeRestartPolicy
		found, restart     bool
		quota, memory      int64 // of the update
	}{
		"unchanged":   {before: "2 2Gi", after: "2000m 2048Mi"},
		"pod resized": {before: "2 2Gi", after: "3 3Gi", found: true, quota: 300_000, memory: 3 << 30},
		"restarts for it": {before: "2 2Gi", after: "2 3Gi", policy: v1.RestartContainer, found: true,
			restart: true},
		"other resource": {before: "2 2Gi", after: "3 2Gi", policy: v1.RestartContainer, found: true,
			quota: 300_000, memory: 2 << 30},
		"own limits": {own: "1 1Gi", before: "2 2Gi", after: "3 3Gi", policy: v1.RestartContainer},
		"own cpu": {own: "1 -", before: "2 2Gi", after: "3 3Gi", found: true, quota: 100_000,
			memory: 3 << 30},
		"by an earlier version": {before: "2 2Gi", after: "2 2Gi", old: true, policy: v1.RestartContainer, found: true,
			quota: 200_000, memory: 2 << 30},
		"by it, with own limits":     {own: "1 1Gi", before: "2 2Gi", after: "2 2Gi", old: true, policy: v1.RestartContainer},
		"of a pod without resources": {before: "", after: "", old: true},
	} {
		pod := desiredPod(always, one)
		c := &pod.Spec.Containers[0]
		c.Resources = requirements("", tc.own)
		c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: tc.policy}}
		whole := func(limits string) {
			r := requirements("", limits)
			pod.Spec.Resources = &r
			if limits == "" {
				pod.Spec.Resources = nil
			}
		}
		whole(tc.before)
		annotations := containerAnnotations(pod, c, containerInput{})
		if tc.old {
			annotations[AnnotationResources] = ResourcesOf(&c.Resources).text()
		}
		l := &observedPod{}
		l.sandbox("s0", true).in("a0", "a", StateRunning, func(o *Container) {
			o.Hash, o.Resources = annotations[AnnotationContainerHash], parseResources(annotations[AnnotationResources])
		})
		whole(tc.after)
		got := Resizes(pod, &l.status, nil)
		if (len(got) == 1) != tc.found || tc.found && got[0].Restart != tc.restart {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		a := Plan(PlanInput{Pod: pod, Status: &l.status, Resizes: got})
		if (len(a.Kill) == 1) != tc.restart || a.KillPod || (len(a.Resize) == 1) != (tc.found && !tc.restart) {
			t.Errorf("%s: plan %+v", name, a)
		}
		if !tc.found || tc.restart {
			continue
		}
		to := testConfig().resizedResources(pod, c, got[0], nil)
		if to.CpuQuota != tc.quota || to.MemoryLimitInBytes != tc.memory {
			t.Errorf("%s: %+v", name, to)
		}
		actuated := map[string]Actuated{"a0": {Resources: got[0].To}}
		if got := Resizes(pod, &l.status, actuated); len(got) > 0 {
			t.Errorf("%s: again %+v", name, got)
		}
	}
}

func resourcesOf(request, limit string) Resources {
	r := requirements(request, limit)
	return ResourcesOf(&r)
}

// A container that was created before its resources were recorded restarts for
// other ones, as it did then; one whose image changed also restarts.
func TestChangesThatAreNotResizes(t *testing.T) {
	pod, status := resizedPod("1 1Gi", "3 2Gi")
	status.Containers[0].Resources = nil
	if got := Resizes(pod, status, nil); len(got) > 0 {
		t.Errorf("resizes %+v", got)
	}
	if a := Plan(PlanInput{Pod: pod, Status: status}); len(a.Kill) != 1 || a.Kill[0].Reason != KillChanged {
		t.Errorf("created by an earlier version: %+v", a)
	}
	pod, status = resizedPod("1 1Gi", "3 2Gi")
	pod.Spec.Containers[0].Image = "another"
	if got := Resizes(pod, status, nil); len(got) > 0 {
		t.Errorf("resizes %+v", got)
	}
	if a := Plan(PlanInput{Pod: pod, Status: status}); len(a.Kill) != 1 || a.Kill[0].Reason != KillChanged {
		t.Errorf("another image: %+v", a)
	}
	// A container that never ran is created again, not resized.
	pod, status = resizedPod("1 1Gi", "3 2Gi")
	status.Containers[0].State = StateCreated
	if a := Plan(PlanInput{Pod: pod, Status: status}); len(a.Remove) != 1 || len(a.Created) > 0 {
		t.Errorf("created only: %+v", a)
	}
}

func TestResourcesSurviveTheAnnotation(t *testing.T) {
	for _, want := range []Resources{resourcesOf("", ""), resourcesOf("100m 1Gi", "- 2Gi"), resourcesOf("0 -", "1 -")} {
		got := parseResources(want.text())
		if got == nil || !got.Equal(want) {
			t.Errorf("%s is parsed as %+v", want.text(), got)
		}
	}
	if got := parseResources("{"); got != nil {
		t.Errorf("invalid text is parsed as %+v", got)
	}
	q := requirements("1 1Gi", "2 2Gi")
	q.Limits["hugepages-2Mi"] = q.Limits["memory"]
	r := resourcesOf("3 -", "- 4Gi").ApplyTo(q)
	if r.Requests.Cpu().Value() != 3 || len(r.Requests) != 1 || r.Limits.Memory().Value() != 4<<30 || len(r.Limits) != 2 ||
		len(q.Requests) != 2 {
		t.Errorf("%v of %v", r, q)
	}
	if diff := cmp.Diff(resourcesOf("2 1Gi", "3 -"),
		resourcesOf("1 1Gi", "3 1Gi").Max(resourcesOf("2 -", "2 -"))); diff != "" {
		t.Errorf("widest (-want +got)\n%s", diff)
	}
}
