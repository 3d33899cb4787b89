package cri

import (
	"testing"
)

func TestPlanInit(t *testing.T) {
	testPlan(t, []planCase{
		{
			name: "after a power loss a stale created container is no progress (k/k#140309)",
			pod:  desiredPod(always, one, "i", "j"),
			observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateCreated).sandbox("t", true).in("x", "i",
				StateExited),
			want: Actions{SandboxID: "t", Attempt: 1, StartInit: []int{1}, Remove: []string{"c"}},
		}, {
			name: "init containers of an older sandbox are no progress",
			pod:  desiredPod(always, one, "i", "j"),
			observed: (&observedPod{}).sandbox("s", false).in("x", "i", StateExited).in("y", "j", StateExited).sandbox("t",
				true),
			want: Actions{SandboxID: "t", Attempt: 1, StartInit: []int{0}},
		}, {
			name: "an init container runs: wait",
			pod:  desiredPod(always, one, "i", "j"), observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateRunning),
			want: Actions{SandboxID: "s"},
		}, {
			name: "an init container succeeded: the next",
			pod:  desiredPod(always, one, "i", "j"), observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited),
			want: Actions{SandboxID: "s", StartInit: []int{1}},
		}, {
			name:     "the last init container succeeded: the regular ones",
			pod:      desiredPod(always, two, "i", "j"),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited).in("y", "j", StateExited),
			want:     Actions{SandboxID: "s", Start: []int{0, 1}},
		}, {
			name: "progress is read from the last one: earlier ones may have been removed",
			pod:  desiredPod(always, one, "i", "j"), observed: (&observedPod{}).sandbox("s", true).in("y", "j", StateExited),
			want: Actions{SandboxID: "s", Start: []int{0}},
		}, {
			name:     "an init container failed: restarted",
			pod:      desiredPod(onFailure, one, "i"),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited, exit(1)),
			want:     Actions{SandboxID: "s", StartInit: []int{0}},
		}, {
			name: "an init container failed, policy Never: the pod has failed",
			pod:  desiredPod(never, one, "i"), observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited, exit(1)),
			want: Actions{KillPod: true, SandboxID: "s"},
		}, {
			name:     "out of memory is a failure also with exit code 0",
			pod:      desiredPod(always, one, "i"),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited, oomKilled),
			want:     Actions{SandboxID: "s", StartInit: []int{0}},
		}, {
			name: "an init container in unknown state is killed first",
			pod:  desiredPod(always, one, "i"), observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateUnknown),
			want: Actions{SandboxID: "s", Kill: []Kill{killed("x", "i", KillUnknown)}, StartInit: []int{0}},
		}, {
			name: "an init container in unknown state, policy Never",
			pod:  desiredPod(never, one, "i"), observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateUnknown),
			want: Actions{KillPod: true, SandboxID: "s"},
		}, {
			name:     "an init container of a deleted pod is not started",
			pod:      deleted(desiredPod(always, one, "i")),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited, exit(1)),
			want:     Actions{SandboxID: "s"},
		}, {
			name: "an init container that was only created is started",
			pod:  desiredPod(never, one, "i"), observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateCreated),
			want: Actions{SandboxID: "s", StartInit: []int{0}, Created: map[string]string{"i": "x"}},
		}, {
			name: "a regular container proves that init was done, also when it has exited",
			pod:  desiredPod(always, one, "i"), observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited, exit(1)),
			want: Actions{SandboxID: "s", Start: []int{0}},
		}, {
			name: "only the newest exited instance of an init container is kept",
			pod:  desiredPod(always, one, "i"),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateExited, exit(1)).in("y", "i", StateExited,
				exit(1)).in("z", "i", StateRunning),
			want: Actions{SandboxID: "s", RemoveInit: []string{"x"}},
		},
	})
}
