package status

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

func TestConditions(t *testing.T) {
	type want struct {
		status          v1.ConditionStatus
		reason, message string
	}
	yes := want{status: v1.ConditionTrue}
	no := want{status: v1.ConditionFalse}
	two := containers("a", "b")
	notReady := observed(running("a"), running("b"))
	notReady.Sandboxes[0].Ready = false
	noIP := observed(running("a"), running("b"))
	noIP.Sandboxes[0].IPs = nil
	hostNet := observed(running("a"), running("b"))
	hostNet.Sandboxes[0].HostNetwork = true
	twoReady := observed(running("a"), running("b"))
	twoReady.Sandboxes = append(twoReady.Sandboxes, cri.Sandbox{ID: "old", Ready: true})
	gated := func(p *v1.Pod) { p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "x/y"}} }
	gate := func(s v1.ConditionStatus) *v1.PodStatus {
		return &v1.PodStatus{Conditions: []v1.PodCondition{{Type: "x/y", Status: s}}}
	}

	cases := []struct {
		name string
		pod  *v1.Pod
		in   Input
		of   v1.PodConditionType
		want want
	}{
		{"scheduled", pod("Always", two), Input{}, v1.PodScheduled, yes},

		{"sandbox", pod("Always", two), Input{Observed: observed()}, v1.PodReadyToStartContainers, yes},
		{"no sandbox", pod("Always", two), Input{Observed: &cri.PodStatus{}}, v1.PodReadyToStartContainers, no},
		{"nothing known", pod("Always", two), Input{}, v1.PodReadyToStartContainers, no},
		{"sandbox not ready", pod("Always", two), Input{Observed: notReady}, v1.PodReadyToStartContainers, no},
		{"sandbox without address", pod("Always", two), Input{Observed: noIP}, v1.PodReadyToStartContainers, no},
		{"host network", pod("Always", two, hostNetwork), Input{Observed: hostNet}, v1.PodReadyToStartContainers, yes},
		{"host network differs", pod("Always", two), Input{Observed: hostNet}, v1.PodReadyToStartContainers, no},
		{"two ready sandboxes", pod("Always", two), Input{Observed: twoReady}, v1.PodReadyToStartContainers, no},

		{"no init containers", pod("Always", two), Input{Observed: observed()}, v1.PodInitialized, yes},
		{"init missing", pod("Always", two, initContainers("i", "j")), Input{Observed: observed(exited("i", 0))},
			v1.PodInitialized,
			want{v1.ConditionFalse, "ContainersNotInitialized", "containers with incomplete status: [j]"}},
		{"init failed", pod("Always", two, initContainers("i", "j")), Input{Observed: observed(exited("i", 1))},
			v1.PodInitialized,
			want{v1.ConditionFalse, "ContainersNotInitialized", "containers with incomplete status: [i j]"}},
		{"init done", pod("Always", two, initContainers("i")), Input{Observed: observed(exited("i", 0))}, v1.PodInitialized,
			yes},
		{"sidecar runs", pod("Always", two, sidecar("s")), Input{Observed: observed(running("s"))}, v1.PodInitialized, yes},
		{"sidecar not started", pod("Always", two, sidecar("s")),
			Input{Observed: observed(running("s")), Started: map[string]bool{"s-id": false}}, v1.PodInitialized,
			want{v1.ConditionFalse, "ContainersNotInitialized", "containers with incomplete status: [s]"}},
		{"sidecar restarts after the start", pod("Always", two, sidecar("s")),
			Input{Observed: observed(exited("s", 1), running("a"))}, v1.PodInitialized, yes},
		{"succeeded", pod("Never", initContainers("i")), Input{Observed: observed(exited("web", 0), exited("i", 0))},
			v1.PodInitialized,
			want{v1.ConditionTrue, "PodCompleted", ""}},
		{"refused with init containers", pod("Never", initContainers("i")), Input{Rejected: &Cause{}}, v1.PodInitialized,
			want{v1.ConditionFalse, "UnknownContainerStatuses", ""}},

		{"all ready", pod("Always", two), Input{Observed: observed(running("a"), running("b"))}, v1.ContainersReady, yes},
		{"one not", pod("Always", two), Input{Observed: observed(running("a"), exited("b", 1))}, v1.ContainersReady,
			want{v1.ConditionFalse, "ContainersNotReady", "containers with unready status: [b]"}},
		{"none, in the order of the spec", pod("Always", containers("b", "a"), sidecar("s")), Input{Observed: observed()},
			v1.ContainersReady,
			want{v1.ConditionFalse, "ContainersNotReady", "containers with unready status: [s b a]"}},
		{"succeeded is not ready", pod("Never"), Input{Observed: observed(exited("web", 0))}, v1.ContainersReady,
			want{v1.ConditionFalse, "PodCompleted", ""}},
		{"failed is not ready", pod("Never"), Input{Observed: observed(exited("web", 1))}, v1.ContainersReady,
			want{v1.ConditionFalse, "PodFailed", ""}},
		{"failed while containers still run", pod("Always"),
			Input{Observed: observed(running("web")), Terminal: &Terminal{Phase: v1.PodFailed}}, v1.ContainersReady,
			want{v1.ConditionFalse, "PodFailed", ""}},

		{"ready", pod("Always", two), Input{Observed: observed(running("a"), running("b"))}, v1.PodReady, yes},
		{"not ready", pod("Always", two), Input{Observed: observed(running("a"))}, v1.PodReady,
			want{v1.ConditionFalse, "ContainersNotReady", "containers with unready status: [b]"}},
		{"gate missing", pod("Always", gated), Input{Observed: observed(running("web"))}, v1.PodReady,
			want{v1.ConditionFalse, "ReadinessGatesNotReady", `the condition "x/y" of a readiness gate is not set`}},
		{"gate closed", pod("Always", gated), Input{Observed: observed(running("web")), Previous: gate("False")}, v1.PodReady,
			want{v1.ConditionFalse, "ReadinessGatesNotReady", `the condition "x/y" of a readiness gate is False`}},
		{"gate open", pod("Always", gated), Input{Observed: observed(running("web")), Previous: gate("True")}, v1.PodReady,
			yes},

		{"faulty manifest", pod("Always"), Input{ManifestFault: "web.yaml:3: spec.x: unknown"}, ManifestFault,
			want{v1.ConditionTrue, "ManifestFaulty", "web.yaml:3: spec.x: unknown"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.in.Pod, c.in.Now = c.pod, now
			got := condition(Generate(c.in), c.of)
			if got == nil {
				t.Fatalf("no condition %s", c.of)
			}
			if g := (want{got.Status, got.Reason, got.Message}); g != c.want {
				t.Errorf("%s = %+v, want %+v", c.of, g, c.want)
			}
		})
	}
}

func TestConditionsAreInTheKubeletsOrder(t *testing.T) {
	prev := &v1.PodStatus{Conditions: []v1.PodCondition{{Type: ManifestFault}, {Type: v1.PodReady}, {Type: "x/y"},
		{Type: v1.DisruptionTarget}}}
	var got []v1.PodConditionType
	for _, c := range Generate(Input{Pod: pod("Always"), Now: now, Previous: prev, ManifestFault: "no"}).Conditions {
		got = append(got, c.Type)
	}
	want := []v1.PodConditionType{"x/y", v1.DisruptionTarget, v1.PodReadyToStartContainers,
		v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled, ManifestFault}
	if !slices.Equal(got, want) {
		t.Errorf("conditions %v, want %v", got, want)
	}
	fixed := Generate(Input{Pod: pod("Always"), Now: now, Previous: prev})
	if condition(fixed, ManifestFault) != nil {
		t.Error("the fault is still shown after it was fixed")
	}
}

func TestTransitionTimesMoveOnlyWhenTheStatusFlips(t *testing.T) {
	p := pod("Always")
	first := Generate(Input{Pod: p, Now: earlier, Observed: observed()})
	second := Generate(Input{Pod: p, Now: now, Observed: observed(running("web")), Previous: &first})
	third := Generate(Input{Pod: p, Now: now.Add(1e10), Observed: observed(running("web")), Previous: &second})
	for _, c := range []struct {
		of   v1.PodConditionType
		want string
	}{{v1.PodReady, "second"}, {v1.PodScheduled, "first"}, {v1.PodReadyToStartContainers, "first"}} {
		want := seconds(earlier)
		if c.want == "second" {
			want = seconds(now)
		}
		if got := condition(third, c.of).LastTransitionTime; !got.Equal(want) {
			t.Errorf("%s moved at %v, want the time of the %s status", c.of, got, c.want)
		}
	}
	if s := NewStore(); !s.Set("u", second) || s.Set("u", third) {
		t.Error("a status in which nothing changed counts as a change")
	}
}
