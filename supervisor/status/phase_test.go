package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

func TestPhase(t *testing.T) {
	const (
		always    = v1.RestartPolicyAlways
		onFailure = v1.RestartPolicyOnFailure
		never     = v1.RestartPolicyNever
	)
	two := containers("a", "b")
	lost := id(inState("i", cri.StateUnknown), "i-id")
	cases := []struct {
		name string
		in   Input
		want v1.PodPhase
	}{
		{"nothing known", Input{Pod: pod(always)}, v1.PodPending},
		{"nothing there", Input{Pod: pod(always), Observed: &cri.PodStatus{}}, v1.PodPending},

		// Rule 1: a failed init container that is not restarted.
		{"init failed, Never", Input{Pod: pod(never, initContainers("i")), Observed: observed(exited("i", 1))}, v1.PodFailed},
		{"init failed, OnFailure", Input{Pod: pod(onFailure, initContainers("i")), Observed: observed(exited("i", 1))},
			v1.PodPending},
		{"init failed, Always", Input{Pod: pod(always, initContainers("i")), Observed: observed(exited("i", 1))},
			v1.PodPending},
		{"init failed and vanished, Never", Input{
			Pod: pod(never, initContainers("i")), Observed: observed(),
			Previous: &v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{
				Name: "i", State: waitingState("PodInitializing", ""), LastTerminationState: endState(exited("i", 1))}}},
		}, v1.PodFailed},
		{"init failed, a new one is made, Never", Input{
			Pod:      pod(never, initContainers("i")),
			Observed: observed(id(inState("i", cri.StateCreated), "i2"), id(exited("i", 1), "i1")),
		}, v1.PodPending},

		// Rule 2: pending.
		{"init missing", Input{Pod: pod(always, initContainers("i")), Observed: observed()}, v1.PodPending},
		{"init running", Input{Pod: pod(always, initContainers("i")), Observed: observed(running("i"))}, v1.PodPending},
		{"init done, web missing", Input{Pod: pod(always, initContainers("i")), Observed: observed(exited("i", 0))},
			v1.PodPending},
		{"second init missing", Input{Pod: pod(always, initContainers("i", "j")), Observed: observed(exited("i", 0))},
			v1.PodPending},
		{"init unknown", Input{Pod: pod(always, initContainers("i")), Observed: observed(lost)}, v1.PodPending},
		{"web created", Input{Pod: pod(always), Observed: observed(inState("web", cri.StateCreated))}, v1.PodPending},
		{"one of two missing", Input{Pod: pod(always, two), Observed: observed(running("a"))}, v1.PodPending},
		{"sidecar not started", Input{
			Pod: pod(always, sidecar("s")), Observed: observed(running("s")),
			Started: map[string]bool{"s-id": false},
		}, v1.PodPending},
		{"sidecar missing", Input{Pod: pod(always, sidecar("s")), Observed: observed()}, v1.PodPending},

		// Rule 3: running.
		{"running", Input{Pod: pod(always), Observed: observed(running("web"))}, v1.PodRunning},
		{"one runs, one ended", Input{Pod: pod(never, two), Observed: observed(running("a"), exited("b", 1))}, v1.PodRunning},
		{"one runs, one waits after an end", Input{
			Pod: pod(always, two), Observed: observed(running("a"), exited("b", 1)),
			Waiting: map[string]cri.Waiting{"b": {Reason: "CrashLoopBackOff"}},
		}, v1.PodRunning},
		{"running after init", Input{Pod: pod(always, initContainers("i")),
			Observed: observed(running("web"), exited("i", 0))}, v1.PodRunning},
		{"init remains cleared away", Input{Pod: pod(always, initContainers("i")), Observed: observed(running("web"))},
			v1.PodRunning},
		{"sidecar restarts under a running pod", Input{
			Pod: pod(always, sidecar("s")), Observed: observed(running("web"), running("s")),
			Started: map[string]bool{"s-id": false},
		}, v1.PodRunning},
		{"sidecar alone started", Input{Pod: pod(always, sidecar("s")), Observed: observed(running("s"))}, v1.PodPending},

		// Rule 4: all ended.
		{"ended 0, Always", Input{Pod: pod(always), Observed: observed(exited("web", 0))}, v1.PodRunning},
		{"ended 1, Always", Input{Pod: pod(always), Observed: observed(exited("web", 1))}, v1.PodRunning},
		{"ended 0, OnFailure", Input{Pod: pod(onFailure), Observed: observed(exited("web", 0))}, v1.PodSucceeded},
		{"ended 1, OnFailure", Input{Pod: pod(onFailure), Observed: observed(exited("web", 1))}, v1.PodRunning},
		{"ended 0 and 1, OnFailure", Input{Pod: pod(onFailure, two), Observed: observed(exited("a", 0), exited("b", 1))},
			v1.PodRunning},
		{"ended 0, Never", Input{Pod: pod(never), Observed: observed(exited("web", 0))}, v1.PodSucceeded},
		{"ended 0 and 1, Never", Input{Pod: pod(never, two), Observed: observed(exited("a", 0), exited("b", 1))},
			v1.PodFailed},
		{"ended 1, a new one is made, Never", Input{Pod: pod(never),
			Observed: observed(id(inState("web", cri.StateCreated), "w2"), id(exited("web", 1), "w1"))}, v1.PodRunning},
		{"vanished while running, Never", Input{
			Pod: pod(never), Observed: observed(),
			Previous: &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "web", State: runningState()}}},
		}, v1.PodFailed},
		{"ended 0, then vanished while waiting, OnFailure", Input{
			Pod: pod(onFailure), Observed: observed(),
			Previous: &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
				Name: "web", State: waitingState("ContainerCreating", ""), LastTerminationState: endState(exited("web", 0))}}},
		}, v1.PodFailed},
		{"crash loop", Input{
			Pod: pod(always), Observed: observed(exited("web", 1)),
			Waiting: map[string]cri.Waiting{"web": {Reason: "CrashLoopBackOff"}},
		}, v1.PodRunning},
		{"sidecar outlives the pod", Input{Pod: pod(never, sidecar("s")), Observed: observed(exited("web", 0), running("s"))},
			v1.PodRunning},
		{"sidecar ended too", Input{Pod: pod(never, sidecar("s")), Observed: observed(exited("web", 0), exited("s", 137))},
			v1.PodSucceeded},

		// Killing a static pod does not make its phase terminal.
		{"killed, Always", Input{Pod: pod(always), Observed: observed(exited("web", 137)), Ended: true}, v1.PodRunning},

		// A recorded decision takes precedence over the containers.
		{"sticky", Input{Pod: pod(never), Observed: observed(running("web")), Record: Record{Phase: v1.PodFailed}},
			v1.PodFailed},
		{"sticky without remains", Input{Pod: pod(never), Observed: &cri.PodStatus{}, Record: Record{Phase: v1.PodSucceeded}},
			v1.PodSucceeded},
		{"new run", Input{Pod: pod(never), Observed: observed(running("web")), Record: Record{Phase: v1.PodFailed}.NewRun()},
			v1.PodRunning},
		{"forced", Input{Pod: pod(always), Observed: observed(running("web")), Terminal: &Terminal{Phase: v1.PodFailed}},
			v1.PodFailed},
		{"refused", Input{Pod: pod(always), Observed: &cri.PodStatus{}, Rejected: &Cause{"OutOfcpu", "no"}}, v1.PodFailed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.in.Now = now
			if got := Generate(c.in).Phase; got != c.want {
				t.Errorf("phase = %q, want %q", got, c.want)
			}
		})
	}
}

func TestReasonOfThePhase(t *testing.T) {
	cases := []struct {
		name            string
		in              Input
		reason, message string
	}{
		{"running", Input{Observed: observed(running("web"))}, "", ""},
		{"refused", Input{Rejected: &Cause{"OutOfcpu", "not enough"}}, "OutOfcpu", "Pod was rejected: not enough"},
		{"deadline", Input{Terminal: &Terminal{v1.PodFailed, Cause{"DeadlineExceeded", "too long"}}}, "DeadlineExceeded",
			"too long"},
		{"recorded", Input{Record: Record{Phase: v1.PodFailed, Reason: "Evicted", Message: "low"}}, "Evicted", "low"},
		{"recorded wins over a later decision", Input{
			Record:   Record{Phase: v1.PodFailed, Reason: "Evicted", Message: "low"},
			Terminal: &Terminal{v1.PodFailed, Cause{"DeadlineExceeded", "too long"}},
		}, "Evicted", "low"},
		{"waits for another", Input{WaitingFor: &Cause{"NameTaken", "held by x"}}, "NameTaken", "held by x"},
		{"runs, whatever the waiting reason", Input{
			WaitingFor: &Cause{"NameTaken", "held by x"}, Observed: observed(running("web")),
		}, "", ""},
		{"ran before a reboot, and waits", Input{
			WaitingFor: &Cause{"OutOfcpu", "not enough"}, Observed: observed(exited("web", 255)),
		}, "OutOfcpu", "not enough"},
		{"sandbox fails", Input{Waiting: map[string]cri.Waiting{"": {Reason: "FailedCreatePodSandBox", Message: "no net"}}},
			"FailedCreatePodSandBox", "no net"},
		{"sandbox fails after a reboot", Input{
			Waiting:  map[string]cri.Waiting{"": {Reason: "FailedCreatePodSandBox", Message: "no net"}},
			Observed: observed(exited("web", 255)),
		}, "FailedCreatePodSandBox", "no net"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.in.Pod, c.in.Now = pod(v1.RestartPolicyAlways), now
			st := Generate(c.in)
			if st.Reason != c.reason || st.Message != c.message {
				t.Errorf("got %q %q, want %q %q", st.Reason, st.Message, c.reason, c.message)
			}
		})
	}
}

// A terminal phase is published when no container may run any more, and is then never
// revoked.
func TestTerminalPhaseIsWithheld(t *testing.T) {
	failedInit := observed(exited("i", 1), running("s"))
	api := func(phase v1.PodPhase) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Annotations = map[string]string{podinfo.AnnotationSource: string(podinfo.SourceAPI)}
			p.Status.Phase = phase
		}
	}
	never := func(edit ...func(*v1.Pod)) *v1.Pod {
		return pod(v1.RestartPolicyNever, append(edit, sidecar("s"), initContainers("i"))...)
	}
	evicted := &Terminal{Phase: v1.PodFailed, Cause: Cause{"Evicted", "low"}}
	cases := []struct {
		name string
		in   Input
		want v1.PodPhase
	}{
		{"sidecar runs", Input{Pod: never(), Observed: failedInit}, v1.PodPending},
		{"sidecar runs, after a restart of the daemon",
			Input{Pod: never(), Observed: failedInit, Record: Record{Phase: v1.PodFailed}}, v1.PodPending},
		{"sidecar in unknown state", Input{Pod: never(), Observed: observed(exited("i", 1), inState("s", cri.StateUnknown))},
			v1.PodPending},
		{"all have exited", Input{Pod: never(), Observed: observed(exited("i", 1), exited("s", 143))}, v1.PodFailed},
		{"nothing observed", Input{Pod: never(), Record: Record{Phase: v1.PodFailed}}, v1.PodFailed},
		{"evicted", Input{Pod: pod(v1.RestartPolicyAlways), Observed: observed(running("web")), Terminal: evicted},
			v1.PodRunning},
		{"evicted while pending", Input{
			Pod: pod(v1.RestartPolicyAlways), Observed: observed(running("web")), Terminal: evicted,
			Previous: &v1.PodStatus{Phase: v1.PodPending},
		}, v1.PodPending},
		{"published before", Input{Pod: never(), Observed: failedInit, Previous: &v1.PodStatus{Phase: v1.PodFailed}},
			v1.PodFailed},
		{"the API has it", Input{Pod: never(api(v1.PodFailed)), Observed: failedInit}, v1.PodFailed},
		{"the API has the phase before", Input{Pod: never(api(v1.PodRunning)), Observed: failedInit}, v1.PodRunning},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.in.Now = now
			decided := Generate(c.in)
			if decided.Phase != v1.PodFailed {
				t.Fatalf("the decision is %s", decided.Phase)
			}
			got := Published(c.in, decided)
			if got.Phase != c.want || got.Phase != v1.PodFailed && got.Reason != "" {
				t.Errorf("phase %s, reason %q, want %s", got.Phase, got.Reason, c.want)
			}
			if isTrue(condition(got, v1.PodReady)) {
				t.Error("the pod is ready")
			}
		})
	}
}

func isTrue(c *v1.PodCondition) bool { return c != nil && c.Status == v1.ConditionTrue }
