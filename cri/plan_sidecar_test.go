package cri

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPlanSidecars(t *testing.T) {
	probeSeconds := int64(3)
	// Most pods here have a sidecar s, an init container i after it, and
	// one regular container a.
	mixed := func(policy v1.RestartPolicy) *v1.Pod { return sidecar(desiredPod(policy, one, "s", "i"), "s") }
	probed := func(policy v1.RestartPolicy) *v1.Pod {
		pod := mixed(policy)
		pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{TerminationGracePeriodSeconds: &probeSeconds}
		return pod
	}
	last := func(policy v1.RestartPolicy) *v1.Pod { return sidecar(desiredPod(policy, one, "i", "s"), "s") }
	testPlan(t, []planCase{
		// Start of the pod.
		{
			name: "first the sidecar",
			pod:  mixed(always), observed: &observedPod{},
			want: Actions{CreateSandbox: true, StartInit: []int{0}},
		}, {
			name: "it runs: the next init container",
			pod:  mixed(always), observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateRunning),
			want: Actions{SandboxID: "b", StartInit: []int{1}},
		}, {
			name: "it runs but has not started: wait",
			pod:  probed(always), observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateRunning),
			started: map[string]bool{"x": false},
			want:    Actions{SandboxID: "b"},
		}, {
			name: "its startup probe has not been asked yet: wait",
			pod:  probed(always), observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateRunning),
			started: map[string]bool{},
			want:    Actions{SandboxID: "b"},
		}, {
			name: "an earlier instance had started, this one has not: wait",
			pod:  probed(always), observed: (&observedPod{}).sandbox("b", true).in("w", "s", StateExited, exit(1)).in("x", "s",
				StateRunning),
			started: map[string]bool{"w": true},
			want:    Actions{SandboxID: "b"},
		}, {
			name: "it has started: the next init container",
			pod:  probed(always), observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateRunning),
			started: map[string]bool{"x": true},
			want:    Actions{SandboxID: "b", StartInit: []int{1}},
		}, {
			name: "no probes: a running one counts as started",
			pod:  probed(always), observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateRunning),
			want: Actions{SandboxID: "b", StartInit: []int{1}},
		}, {
			name: "the last one is a sidecar that runs: the regular containers",
			pod:  last(always), observed: (&observedPod{}).sandbox("b", true).in("x", "i", StateExited).in("y", "s",
				StateRunning),
			want: Actions{SandboxID: "b", Start: []int{0}},
		}, {
			name:     "sidecars only, both run: the regular containers",
			pod:      sidecar(desiredPod(always, one, "s", "t"), "s", "t"),
			observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateRunning).in("y", "t", StateRunning),
			want:     Actions{SandboxID: "b", Start: []int{0}},
		}, {
			name: "it exited before it had started: restarted, whatever the policy and the exit code",
			pod:  probed(never), observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateExited),
			want: Actions{SandboxID: "b", StartInit: []int{0}},
		}, {
			name: "it was only created: it is started",
			pod:  mixed(never), observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateCreated),
			want: Actions{SandboxID: "b", StartInit: []int{0}, Created: map[string]string{"s": "x"}},
		}, {
			name: "a stale created one of an older sandbox is no progress",
			pod:  mixed(always),
			observed: (&observedPod{}).sandbox("old", false).in("w", "s", StateCreated).in("v", "i", StateCreated).sandbox("b",
				true),
			want: Actions{SandboxID: "b", Attempt: 1, StartInit: []int{0}, Remove: []string{"v", "w"}},
		}, {
			name: "it is in unknown state: it is killed and started again",
			pod:  mixed(never), observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateUnknown),
			want: Actions{SandboxID: "b", Kill: []Kill{killed("x", "s", KillUnknown)}, StartInit: []int{0}},
		}, {
			name: "its startup probe failed: killed with the probe's grace and started again",
			pod:  probed(never), observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateRunning),
			failed: map[string]KillReason{"x": KillStartup}, started: map[string]bool{"x": false},
			want: Actions{SandboxID: "b", StartInit: []int{0},
				Kill: []Kill{{ID: "x", Name: "s", Reason: KillStartup, Grace: &probeSeconds}}},
		},

		// While init containers run.
		{
			name:     "it ended while the next init container runs: restarted",
			pod:      mixed(never),
			observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateExited).in("y", "i", StateRunning),
			want:     Actions{SandboxID: "b", StartInit: []int{0}},
		}, {
			name:     "both it and the init container ended: both restarted",
			pod:      mixed(onFailure),
			observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateExited).in("y", "i", StateExited, exit(1)),
			want:     Actions{SandboxID: "b", StartInit: []int{0, 1}},
		}, {
			name:     "the init container failed for good: the pod has, sidecars end with it",
			pod:      mixed(never),
			observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateExited).in("y", "i", StateExited, exit(1)),
			want:     Actions{SandboxID: "b", KillPod: true},
		}, {
			name:     "the pod has come past it: that it has not started again blocks nothing",
			pod:      probed(always),
			observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateRunning).in("y", "i", StateExited),
			started:  map[string]bool{"x": false},
			want:     Actions{SandboxID: "b", Start: []int{0}},
		}, {
			name:     "it died as the last init container succeeded: it and the regular containers",
			pod:      mixed(always),
			observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateExited).in("y", "i", StateExited),
			want:     Actions{SandboxID: "b", StartInit: []int{0}, Start: []int{0}},
		},

		// While regular containers run.
		{
			name: "all run: nothing to do",
			pod:  last(never),
			observed: (&observedPod{}).sandbox("b", true).in("x", "i", StateExited).in("y", "s", StateRunning).in("c", "a",
				StateRunning),
			want: Actions{SandboxID: "b"},
		}, {
			name: "it ended: started again although the policy is Never",
			pod:  last(never),
			observed: (&observedPod{}).sandbox("b", true).in("x", "i", StateExited).in("y", "s", StateExited).in("c", "a",
				StateRunning),
			want: Actions{SandboxID: "b", StartInit: []int{1}},
		}, {
			name: "it was removed: started again",
			pod:  last(never), observed: (&observedPod{}).sandbox("b", true).in("c", "a", StateRunning),
			want: Actions{SandboxID: "b", StartInit: []int{1}},
		}, {
			name: "liveness failed: killed with its grace and started again",
			pod: func() *v1.Pod {
				p := last(never)
				p.Spec.InitContainers[1].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: &probeSeconds}
				return p
			}(),
			observed: (&observedPod{}).sandbox("b", true).in("y", "s", StateRunning).in("c", "a", StateRunning),
			failed:   map[string]KillReason{"y": KillLiveness},
			want: Actions{SandboxID: "b", StartInit: []int{1},
				Kill: []Kill{{ID: "y", Name: "s", Reason: KillLiveness, Grace: &probeSeconds}}},
		}, {
			name:     "its definition changed: killed and started again",
			pod:      last(never),
			observed: (&observedPod{}).sandbox("b", true).in("y", "s", StateRunning, otherHash).in("c", "a", StateRunning),
			want:     Actions{SandboxID: "b", StartInit: []int{1}, Kill: []Kill{killed("y", "s", KillChanged)}},
		}, {
			name:     "it and a regular container ended: both again",
			pod:      last(always),
			observed: (&observedPod{}).sandbox("b", true).in("y", "s", StateExited).in("c", "a", StateExited),
			want:     Actions{SandboxID: "b", StartInit: []int{1}, Start: []int{0}},
		}, {
			name: "it runs twice: the older one is killed",
			pod:  last(always),
			observed: (&observedPod{}).sandbox("b", true).in("x", "s", StateRunning).in("y", "s", StateRunning).in("c", "a",
				StateRunning),
			want: Actions{SandboxID: "b", Kill: []Kill{killed("x", "s", KillSurplus)}},
		}, {
			name: "of its ended instances only the newest is kept",
			pod:  last(always),
			observed: (&observedPod{}).sandbox("b", true).in("w", "s", StateExited).in("x", "s", StateExited).in("y", "s",
				StateRunning).in("c", "a", StateRunning),
			want: Actions{SandboxID: "b", RemoveInit: []string{"w"}},
		},

		// End of the pod.
		{
			name: "the regular containers are done: the pod has ended, the sidecar with it",
			pod:  last(never), observed: (&observedPod{}).sandbox("b", true).in("y", "s", StateRunning).in("c", "a",
				StateExited),
			want: Actions{SandboxID: "b", KillPod: true},
		}, {
			name: "the regular containers are done: a sidecar that ended is not started again",
			pod:  last(onFailure), observed: (&observedPod{}).sandbox("b", true).in("y", "s", StateExited, exit(1)).in("c", "a",
				StateExited),
			want: Actions{SandboxID: "b", KillPod: true},
		}, {
			name: "the regular container failed and is restarted: the sidecar keeps running",
			pod:  last(onFailure), observed: (&observedPod{}).sandbox("b", true).in("y", "s", StateRunning).in("c", "a",
				StateExited, exit(1)),
			want: Actions{SandboxID: "b", Start: []int{0}},
		}, {
			name: "the regular container failed its probe, policy Never: all terminate",
			pod:  last(never), observed: (&observedPod{}).sandbox("b", true).in("y", "s", StateRunning).in("c", "a",
				StateRunning),
			failed: map[string]KillReason{"c": KillLiveness},
			want:   Actions{SandboxID: "b", KillPod: true},
		}, {
			name: "a deleted pod starts no sidecar",
			pod:  deleted(last(always)), observed: (&observedPod{}).sandbox("b", true).in("y", "s", StateExited).in("c", "a",
				StateRunning),
			want: Actions{SandboxID: "b"},
		},
	})
}
