package cri

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const (
	restart    = v1.ContainerRestartRuleActionRestart
	restartAll = v1.ContainerRestartRuleActionRestartAllContainers

	ownAlways    = v1.ContainerRestartPolicyAlways
	ownOnFailure = v1.ContainerRestartPolicyOnFailure
	ownNever     = v1.ContainerRestartPolicyNever
)

func TestOnExit(t *testing.T) {
	const none = v1.ContainerRestartPolicy("")
	rules := func(r ...v1.ContainerRestartRule) []v1.ContainerRestartRule { return r }
	for _, tc := range []struct {
		name  string
		pod   v1.RestartPolicy
		own   v1.ContainerRestartPolicy
		rules []v1.ContainerRestartRule
		code  int32
		want  ExitAction
	}{
		{"pod Always", always, none, nil, 0, RestartContainer},
		{"pod OnFailure, success", onFailure, none, nil, 0, NoRestart},
		{"pod OnFailure, failure", onFailure, none, nil, 1, RestartContainer},
		{"pod Never", never, none, nil, 1, NoRestart},
		{"own Always under Never", never, ownAlways, nil, 0, RestartContainer},
		{"own OnFailure under Never, success", never, ownOnFailure, nil, 0, NoRestart},
		{"own OnFailure under Always, success", always, ownOnFailure, nil, 0, NoRestart},
		{"own OnFailure under Never, failure", never, ownOnFailure, nil, 2, RestartContainer},
		{"own Never under Always", always, ownNever, nil, 1, NoRestart},
		{"In, listed", never, ownNever, rules(on(restart, 42, 43)), 43, RestartContainer},
		{"In, not listed: the policy", never, ownNever, rules(on(restart, 42)), 43, NoRestart},
		{"In, not listed: the own policy", never, ownAlways, rules(on(restart, 42)), 43, RestartContainer},
		{"NotIn, listed", never, ownNever, rules(notOn(restart, 42)), 42, NoRestart},
		{"NotIn, not listed", never, ownNever, rules(notOn(restart, 42)), 0, RestartContainer},
		{"all containers", never, ownNever, rules(on(restartAll, 42)), 42, RestartAllContainers},
		{"the first rule that fits decides", never, ownNever, rules(on(restart, 1), on(restart, 42), on(restartAll, 42)), 42,
			RestartContainer},
		{"rules without an own policy are ignored", never, none, rules(on(restart, 42)), 42, NoRestart},
		{"a rule about nothing", never, ownNever, rules(v1.ContainerRestartRule{Action: restart}), 42, NoRestart},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := desiredPod(tc.pod, one)
			c := &pod.Spec.Containers[0]
			if tc.own != none {
				c.RestartPolicy = &tc.own
			}
			c.RestartPolicyRules = tc.rules
			if got := OnExit(pod, c, tc.code); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestPlanOwnPolicies(t *testing.T) {
	testPlan(t, []planCase{
		{
			name:     "policy Never, its own Always: started again",
			pod:      restarting(desiredPod(never, two), "a", ownAlways),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited).in("d", "b", StateExited, exit(1)),
			want:     Actions{SandboxID: "s", Start: []int{0}},
		}, {
			name:     "policy Always, its own Never: it stays",
			pod:      restarting(desiredPod(always, two), "a", ownNever),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited, exit(1)).in("d", "b", StateRunning),
			want:     Actions{SandboxID: "s"},
		}, {
			name:     "policy Always, all have their own and are done: the pod has terminated",
			pod:      restarting(restarting(desiredPod(always, two), "a", ownNever), "b", ownOnFailure),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited, exit(1)).in("d", "b", StateExited),
			want:     Actions{SandboxID: "s", KillPod: true},
		}, {
			name:     "a rule restarts it",
			pod:      restarting(desiredPod(never, one), "a", ownNever, on(restart, 42)),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited, exit(42)),
			want:     Actions{SandboxID: "s", Start: []int{0}},
		}, {
			name:     "liveness failed, its own policy is Never: killed, not restarted",
			pod:      restarting(desiredPod(always, two), "a", ownNever),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "b", StateRunning),
			failed:   map[string]KillReason{"c": KillLiveness},
			want:     Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillLiveness)}},
		}, {
			name:     "liveness failed, policy Never, its own OnFailure: killed and restarted",
			pod:      restarting(desiredPod(never, one), "a", ownOnFailure),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning),
			failed:   map[string]KillReason{"c": KillLiveness},
			want:     Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillLiveness)}, Start: []int{0}},
		}, {
			name:     "liveness failed, Never but with rules: the pod waits for the code",
			pod:      restarting(desiredPod(never, one), "a", ownNever, on(restart, 137)),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning),
			failed:   map[string]KillReason{"c": KillLiveness},
			want:     Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillLiveness)}},
		}, {
			name:     "an init container's own policy: it fails the pod",
			pod:      restarting(desiredPod(always, one, "i"), "i", ownNever),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited, exit(1)),
			want:     Actions{SandboxID: "s", KillPod: true},
		}, {
			name:     "an init container's own policy: it is restarted",
			pod:      restarting(desiredPod(never, one, "i"), "i", ownOnFailure),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited, exit(1)),
			want:     Actions{SandboxID: "s", StartInit: []int{0}},
		}, {
			name:     "an init container's own policy OnFailure: out of memory is a failure",
			pod:      restarting(desiredPod(never, one, "i"), "i", ownOnFailure),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited, oomKilled),
			want:     Actions{SandboxID: "s", StartInit: []int{0}},
		}, {
			name:     "an init container's rule: it is restarted",
			pod:      restarting(desiredPod(never, one, "i"), "i", ownNever, on(restart, 3)),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited, exit(3)),
			want:     Actions{SandboxID: "s", StartInit: []int{0}},
		}, {
			name:     "an init container that succeeded is done, whatever its rules",
			pod:      restarting(desiredPod(never, one, "i"), "i", ownNever, notOn(restartAll, 3)),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited),
			want:     Actions{SandboxID: "s", Start: []int{0}},
		},
	})
}

func TestPlanRestartAll(t *testing.T) {
	zero := int64(0)
	end := func(id, name string) Kill { return Kill{ID: id, Name: name, Reason: KillRestartAll, Grace: &zero} }
	// The regular container a restarts all containers with exit code 42.
	pod := func(init ...string) *v1.Pod {
		return restarting(desiredPod(never, two, init...), "a", ownNever, on(restartAll, 42))
	}
	trigger := &Container{ID: "c", Name: "a", State: StateExited, ExitCode: 42, SandboxID: "s",
		Hash: Hash(&pod().Spec.Containers[0])}
	testPlan(t, []planCase{
		{
			name: "another code: nothing",
			pod:  pod(), observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited, exit(1)).in("d", "b",
				StateRunning),
			want: Actions{SandboxID: "s"},
		}, {
			name: "running containers are killed at once, then all are removed, the trigger last",
			pod:  sidecar(pod("i", "p"), "p"),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited).in("y", "p", StateRunning).
				in("c", "a", StateExited, exit(42)).in("d", "b", StateRunning),
			want: Actions{SandboxID: "s", Kill: []Kill{end("d", "b"), end("y", "p")},
				RestartAll: &RestartAll{Trigger: trigger, Remove: []string{"d", "y", "x", "c"}}},
		}, {
			name: "nothing runs",
			pod:  pod(), observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited, exit(42)).in("d", "b",
				StateExited),
			want: Actions{SandboxID: "s", RestartAll: &RestartAll{Trigger: trigger, Remove: []string{"d", "c"}}},
		}, {
			name: "all were removed: it starts over with the first init container, in the same sandbox",
			pod:  pod("i"), observed: (&observedPod{}).sandbox("s", true),
			want: Actions{SandboxID: "s", StartInit: []int{0}},
		}, {
			name: "an older exit triggers nothing",
			pod:  pod(), observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited, exit(42)).in("e", "a",
				StateRunning).in("d", "b", StateRunning),
			want: Actions{SandboxID: "s"},
		}, {
			name: "the sandbox died: the restart is still triggered",
			pod:  pod(), observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateExited, exit(42)).in("d", "b",
				StateExited),
			want: Actions{SandboxID: "s", RestartAll: &RestartAll{Trigger: trigger, Remove: []string{"d", "c"}}},
		}, {
			name: "a deleted pod restarts nothing",
			pod:  deleted(pod()), observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited, exit(42)).in("d", "b",
				StateExited),
			want: Actions{SandboxID: "s", KillPod: true},
		},
	})
}

// Init containers and sidecars can trigger a restart of all containers too.
func TestPlanRestartAllForInit(t *testing.T) {
	pod := sidecar(desiredPod(never, one, "i", "s"), "s")
	pod = restarting(pod, "i", ownNever, on(restartAll, 7))
	pod.Spec.InitContainers[1].RestartPolicyRules = []v1.ContainerRestartRule{notOn(restartAll, 0)}
	for name, tc := range map[string]struct {
		observed *observedPod
		want     []string
	}{
		"init container": {(&observedPod{}).sandbox("b", true).in("x", "i", StateExited, exit(7)), []string{"x"}},
		"sidecar": {(&observedPod{}).sandbox("b", true).in("x", "i", StateExited).in("y", "s", StateExited,
			exit(1)).in("c", "a", StateExited), []string{"c", "x", "y"}},
		"both": {(&observedPod{}).sandbox("b", true).in("x", "i", StateExited, exit(7)).in("y", "s", StateExited,
			exit(1)).in("c", "a", StateExited),
			[]string{"c", "y", "x"}},
		"sidecar, another code": {(&observedPod{}).sandbox("b", true).in("x", "i", StateExited).in("y", "s",
			StateExited).in("c", "a", StateRunning), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Plan(PlanInput{Pod: pod, Status: &tc.observed.status})
			var remove []string
			if got.RestartAll != nil {
				remove = got.RestartAll.Remove
			}
			if !slices.Equal(remove, tc.want) {
				t.Errorf("removes %q, want %q", remove, tc.want)
			}
		})
	}
}
