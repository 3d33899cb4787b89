package cri

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPlanRegular(t *testing.T) {
	probeSeconds := int64(7)
	testPlan(t, []planCase{
		{
			name:     "all run: nothing to do",
			pod:      desiredPod(always, two),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "b", StateRunning),
			want:     Actions{SandboxID: "s"},
		}, {
			name:     "one has exited, policy Always",
			pod:      desiredPod(always, two),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited).in("d", "b", StateRunning),
			want:     Actions{SandboxID: "s", Start: []int{0}},
		}, {
			name:     "policy OnFailure: only the failed one",
			pod:      desiredPod(onFailure, two),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited).in("d", "b", StateExited, exit(2)),
			want:     Actions{SandboxID: "s", Start: []int{1}},
		}, {
			name:     "policy OnFailure, all succeeded: the pod has ended",
			pod:      desiredPod(onFailure, two),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited).in("d", "b", StateExited),
			want:     Actions{KillPod: true, SandboxID: "s"},
		}, {
			name:     "policy Never: one still runs, the other stays as it is",
			pod:      desiredPod(never, two),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited, exit(1)).in("d", "b", StateRunning),
			want:     Actions{SandboxID: "s"},
		}, {
			name:     "policy Never: one was never made",
			pod:      desiredPod(never, two),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited, exit(1)),
			want:     Actions{SandboxID: "s", Start: []int{1}},
		}, {
			name:     "a deleted pod starts nothing",
			pod:      deleted(desiredPod(always, two)),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited),
			want:     Actions{KillPod: true, SandboxID: "s"},
		}, {
			name: "unknown state is killed first and started whatever the policy",
			pod:  desiredPod(never, one), observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateUnknown),
			want: Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillUnknown)}, Start: []int{0}},
		}, {
			name: "a container that was only created is started",
			pod:  desiredPod(always, one), observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateCreated),
			want: Actions{SandboxID: "s", Start: []int{0}, Created: map[string]string{"a": "c"}},
		}, {
			name: "one created from another definition is created again",
			pod:  desiredPod(always, one), observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateCreated, otherHash),
			want: Actions{SandboxID: "s", Start: []int{0}, Remove: []string{"c"}},
		}, {
			name:     "one created from inputs that have changed is created again",
			pod:      desiredPod(always, one),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateCreated),
			changed:  map[string]string{"c": "ConfigMap default/cm"},
			want:     Actions{SandboxID: "s", Start: []int{0}, Remove: []string{"c"}},
		}, {
			name:     "one that runs is created again from changed inputs, whatever the policy",
			pod:      desiredPod(never, two),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "b", StateRunning),
			changed:  map[string]string{"c": "ConfigMap default/cm"},
			want:     Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillChanged)}, Start: []int{0}},
		}, {
			name: "one created in an older sandbox is created again",
			pod:  desiredPod(always, one), observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateCreated).sandbox("t",
				true),
			want: Actions{SandboxID: "t", Attempt: 1, Start: []int{0}, Remove: []string{"c"}},
		}, {
			name:     "one created next to a running one is removed",
			pod:      desiredPod(always, one),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "a", StateCreated),
			want:     Actions{SandboxID: "s", Remove: []string{"d"}},
		}, {
			name:     "two were created: the newest is started",
			pod:      desiredPod(always, one),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateCreated).in("d", "a", StateCreated),
			want:     Actions{SandboxID: "s", Start: []int{0}, Created: map[string]string{"a": "d"}, Remove: []string{"c"}},
		}, {
			name:     "a new instance was made: a restart was decided, whatever the policy for the last exit",
			pod:      desiredPod(never, one),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited).in("d", "a", StateCreated),
			want:     Actions{SandboxID: "s", Start: []int{0}, Created: map[string]string{"a": "d"}},
		}, {
			name: "the definition changed: restarted whatever the policy",
			pod:  desiredPod(never, one), observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning, otherHash),
			want: Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillChanged)}, Start: []int{0}},
		}, {
			name: "a container without a hash is not touched",
			pod:  desiredPod(always, one), observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning, noHash),
			want: Actions{SandboxID: "s"},
		}, {
			name: "liveness failed: killed with the probe's grace and restarted",
			pod: func() *v1.Pod {
				p := desiredPod(always, two)
				p.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: &probeSeconds}
				return p
			}(),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "b", StateRunning),
			failed:   map[string]KillReason{"c": KillLiveness},
			want: Actions{SandboxID: "s", Start: []int{0},
				Kill: []Kill{{ID: "c", Name: "a", Reason: KillLiveness, Grace: &probeSeconds}}},
		}, {
			name:     "startup failed, policy Never: killed and not restarted, the other keeps running",
			pod:      desiredPod(never, two),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "b", StateRunning),
			failed:   map[string]KillReason{"c": KillStartup},
			want:     Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillStartup)}},
		}, {
			name:     "the only one failed its probe, policy Never: the pod has ended",
			pod:      desiredPod(never, one),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning),
			failed:   map[string]KillReason{"c": KillLiveness},
			want:     Actions{KillPod: true, SandboxID: "s"},
		}, {
			name:     "the failed probe of an earlier instance says nothing",
			pod:      desiredPod(always, one),
			observed: (&observedPod{}).sandbox("s", true).in("b", "a", StateExited).in("c", "a", StateRunning),
			failed:   map[string]KillReason{"b": KillLiveness},
			want:     Actions{SandboxID: "s"},
		}, {
			name:     "two run: the older one is killed",
			pod:      desiredPod(always, one),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "a", StateRunning),
			want:     Actions{SandboxID: "s", Kill: []Kill{killed("c", "a", KillSurplus)}},
		}, {
			name: "one runs in a dead sandbox next to the wanted one",
			pod:  desiredPod(always, one),
			observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateRunning).sandbox("t", true).in("d", "a",
				StateRunning),
			want: Actions{SandboxID: "t", Attempt: 1, Kill: []Kill{killed("c", "a", KillSurplus)}},
		}, {
			name:     "one runs in a dead sandbox only: it is ended before another starts",
			pod:      desiredPod(always, one),
			observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateRunning).sandbox("t", true),
			want:     Actions{SandboxID: "t", Attempt: 1, Kill: []Kill{killed("c", "a", KillSurplus)}, Start: []int{0}},
		}, {
			name:     "a container that the pod does not have is removed",
			pod:      desiredPod(always, one),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "z", StateRunning),
			want:     Actions{SandboxID: "s", Kill: []Kill{killed("d", "z", KillSurplus)}},
		},
	})
}
