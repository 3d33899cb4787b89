package status

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// own gives a container its own restart policy and rules.
func own(name string, policy v1.ContainerRestartPolicy, rules ...v1.ContainerRestartRule) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				if list[i].Name == name {
					list[i].RestartPolicy, list[i].RestartPolicyRules = &policy, rules
				}
			}
		}
	}
}

func on(action v1.ContainerRestartRuleAction, code int32) v1.ContainerRestartRule {
	return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
		Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code}}}
}

const (
	restart    = v1.ContainerRestartRuleActionRestart
	restartAll = v1.ContainerRestartRuleActionRestartAllContainers
)

func outOfMemory(c cri.Container) cri.Container {
	c.Reason = "OOMKilled"
	return c
}

func TestPhaseByTheContainersOwnPolicies(t *testing.T) {
	two := containers("a", "b")
	init := initContainers("i")
	for _, c := range []struct {
		name string
		in   Input
		want v1.PodPhase
	}{
		{"Never, its own Always", Input{Pod: pod("Never", own("web", "Always")), Observed: observed(exited("web", 0))},
			v1.PodRunning},
		{"Never, its own OnFailure, failed",
			Input{Pod: pod("Never", own("web", "OnFailure")), Observed: observed(exited("web", 1))}, v1.PodRunning},
		{"Never, its own OnFailure, succeeded",
			Input{Pod: pod("Never", own("web", "OnFailure")), Observed: observed(exited("web", 0))}, v1.PodSucceeded},
		{"Always, its own Never, failed",
			Input{Pod: pod("Always", own("web", "Never")), Observed: observed(exited("web", 1))}, v1.PodFailed},
		{"Always, its own Never, with another that restarts", Input{
			Pod: pod("Always", two, own("a", "Never")), Observed: observed(exited("a", 1), exited("b", 0))}, v1.PodRunning},
		{"a rule fits", Input{Pod: pod("Never", own("web", "Never", on(restart, 42))), Observed: observed(exited("web", 42))},
			v1.PodRunning},
		{"no rule fits", Input{Pod: pod("Always", own("web", "Never", on(restart, 42))),
			Observed: observed(exited("web", 1))}, v1.PodFailed},
		{"init, its own Never, failed",
			Input{Pod: pod("Always", init, own("i", "Never")), Observed: observed(exited("i", 1))}, v1.PodFailed},
		{"init, a rule fits", Input{Pod: pod("Never", init, own("i", "Never", on(restart, 3))),
			Observed: observed(exited("i", 3))}, v1.PodPending},
		{"init out of memory with code 0, Never",
			Input{Pod: pod("Never", init), Observed: observed(outOfMemory(exited("i", 0)))}, v1.PodFailed},
		{"init out of memory with code 0, its own OnFailure",
			Input{Pod: pod("Never", init, own("i", "OnFailure")), Observed: observed(outOfMemory(exited("i", 0)))},
			v1.PodPending},

		{"all restart, one had failed for good", Input{
			Pod: pod("Never", two, own("a", "Never", on(restartAll, 42))), Observed: observed(exited("a", 42), exited("b", 1))},
			v1.PodRunning},
		{"all restart, an init container had succeeded", Input{
			Pod:      pod("Never", two, init, own("a", "Never", on(restartAll, 42))),
			Observed: observed(exited("a", 42), running("b"), exited("i", 0))}, v1.PodRunning},
		{"all were removed", Input{
			Pod:      pod("Never", two, own("a", "Never", on(restartAll, 42))),
			Observed: observed(), Record: Record{PendingRestart: []string{"a", "b"}, Ready: map[string]ReadyRecord{"b": {}}}},
			v1.PodPending},
		{"all were removed, one has ended again, one cannot start", Input{
			Pod:      pod("Never", two, own("a", "Never", on(restartAll, 42))),
			Observed: observed(exited("a", 1)), Record: Record{PendingRestart: []string{"b"}},
			Previous: &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
				{Name: "b", LastTerminationState: endState(exited("b", 0))}}},
			Waiting: map[string]cri.Waiting{"b": {Reason: "ErrImagePull"}}}, v1.PodRunning},
		{"all were removed, the init containers begin", Input{
			Pod:      pod("Never", init, own("web", "Never", on(restartAll, 42))),
			Observed: observed(), Record: Record{PendingRestart: []string{"i", "web"}},
			Previous: &v1.PodStatus{
				InitContainerStatuses: []v1.ContainerStatus{{Name: "i", ContainerID: "i", State: endState(exited("i", 0))}},
				ContainerStatuses:     []v1.ContainerStatus{{Name: "web", ContainerID: "w", State: endState(exited("web", 42))}},
			}}, v1.PodPending},
		{"an old rule that fitted says nothing of a pod that has ended", Input{
			Pod: pod("Never", own("web", "Never", on(restartAll, 42))), Observed: observed(exited("web", 42)),
			Record: Record{Phase: v1.PodFailed}}, v1.PodFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.in.Now = now
			if got := Generate(c.in).Phase; got != c.want {
				t.Errorf("phase = %q, want %q", got, c.want)
			}
		})
	}
}

// The statuses of a pod whose containers all restart, observation by
// observation, with a daemon that keeps running and with one that is restarted
// before each observation.
func TestAllContainersRestart(t *testing.T) {
	p := pod("Never", containers("a", "b"), initContainers("i"), own("a", "Never", on(restartAll, 42)))
	for _, forgetful := range []bool{false, true} {
		var previous *v1.PodStatus
		var rec Record
		look := func(o *cri.PodStatus) v1.PodStatus {
			if forgetful {
				previous = nil
			}
			st := Generate(Input{Pod: p, Observed: o, Record: rec, Previous: previous, Now: now})
			rec, previous = rec.Observe(&st), &st
			if st.Phase == v1.PodFailed || st.Phase == v1.PodSucceeded {
				t.Fatalf("the pod has ended: %s", st.Phase)
			}
			return st
		}
		restarting := func(st v1.PodStatus, want v1.ConditionStatus) {
			t.Helper()
			if c := condition(st, v1.AllContainersRestarting); c == nil || c.Status != want {
				t.Errorf("condition %+v, want %s", c, want)
			}
		}
		restarting(look(observed(running("a"), count(running("b"), 1), exited("i", 0))), v1.ConditionFalse)
		st := look(observed(exited("a", 42), count(running("b"), 1), exited("i", 0)))
		restarting(st, v1.ConditionTrue)
		if c := condition(st, v1.AllContainersRestarting); c.Reason != "ContainerExited" ||
			c.Message != "all containers are restarted because a exited with 42" {
			t.Errorf("condition %+v", c)
		}
		look(observed(exited("a", 42), count(exited("b", 143), 1), exited("i", 0)))
		if want := []string{"i", "a", "b"}; !slices.Equal(rec.PendingRestart, want) {
			t.Errorf("restarts %q, want %q", rec.PendingRestart, want)
		}
		// The trigger is removed last.
		restarting(look(observed(exited("a", 42))), v1.ConditionTrue)
		st = look(observed())
		restarting(st, v1.ConditionFalse)
		look(observed())
		if b := status(st, "b"); b.State.Waiting == nil || b.State.Waiting.Reason != "RestartingAllContainers" ||
			b.ContainerID != "" {
			t.Errorf("status of b %+v", b)
		}
		if b := status(st, "b"); !forgetful &&
			(b.RestartCount != 2 || b.LastTerminationState.Terminated == nil ||
				b.LastTerminationState.Terminated.ExitCode != 143) {
			t.Errorf("status of b %+v", b)
		}
		st = look(observed(id(count(running("i"), 1), "i2")))
		if st.Phase != v1.PodPending || slices.Contains(rec.PendingRestart, "i") || len(rec.PendingRestart) != 2 {
			t.Errorf("phase %s, restarts %q", st.Phase, rec.PendingRestart)
		}
		st = look(observed(id(count(running("a"), 1), "a2"), id(count(running("b"), 2), "b2"),
			id(count(exited("i", 0), 1), "i2")))
		if st.Phase != v1.PodRunning || rec.PendingRestart != nil || status(st, "a").RestartCount != 1 ||
			status(st, "b").RestartCount != 2 {
			t.Errorf("phase %s, restarts %q, status %+v", st.Phase, rec.PendingRestart, st.ContainerStatuses)
		}
	}
}

func TestAllContainersRestartingIsShownOfPodsWithTheRuleOnly(t *testing.T) {
	st := Generate(Input{Pod: pod("Always", own("web", "Never", on(restart, 1))), Now: now,
		Observed: observed(exited("web", 1))})
	if c := condition(st, v1.AllContainersRestarting); c != nil {
		t.Errorf("condition %+v", c)
	}
}
