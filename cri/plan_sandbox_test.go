package cri

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPlanSandbox(t *testing.T) {
	testPlan(t, []planCase{
		{
			name: "nothing there: a sandbox and all containers in order",
			pod:  desiredPod(always, two), observed: &observedPod{},
			want: Actions{CreateSandbox: true, Start: []int{0, 1}},
		}, {
			name: "nothing there, with init: only the first init container",
			pod:  desiredPod(always, two, "i", "j"), observed: &observedPod{},
			want: Actions{CreateSandbox: true, StartInit: []int{0}},
		}, {
			name: "nothing there, policy Never: it runs once",
			pod:  desiredPod(never, one), observed: &observedPod{},
			want: Actions{CreateSandbox: true, Start: []int{0}},
		}, {
			name: "a ready sandbox without containers, as after a lost answer, is used",
			pod:  desiredPod(always, two), observed: (&observedPod{}).sandbox("s", true),
			want: Actions{SandboxID: "s", Start: []int{0, 1}},
		}, {
			name: "the sandbox died: the pod is terminated and starts over",
			pod:  desiredPod(always, one), observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateRunning),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{0}},
		}, {
			name: "two ready sandboxes: both are stopped",
			pod:  desiredPod(always, one), observed: (&observedPod{}).sandbox("s", true).sandbox("t", true).in("c", "a",
				StateRunning),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "t", Attempt: 2, Start: []int{0}},
		}, {
			name: "only an older sandbox is ready",
			pod:  desiredPod(always, one), observed: (&observedPod{}).sandbox("s", true).sandbox("t", false),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "t", Attempt: 2, Start: []int{0}},
		}, {
			name: "the sandbox has the pod's network, the host's is wanted",
			pod: func() *v1.Pod {
				p := desiredPod(always, one)
				p.Spec.HostNetwork = true
				return p
			}(),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning),
			want:     Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{0}},
		}, {
			name: "a sandbox on the host's network needs no address",
			pod: func() *v1.Pod {
				p := desiredPod(always, one)
				p.Spec.HostNetwork = true
				return p
			}(),
			observed: func() *observedPod {
				l := (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning)
				l.status.Sandboxes[0].HostNetwork, l.status.Sandboxes[0].IPs = true, nil
				return l
			}(),
			want: Actions{SandboxID: "s"},
		}, {
			name: "a sandbox on the pod's network without an address",
			pod:  desiredPod(always, one),
			observed: func() *observedPod {
				l := (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning)
				l.status.Sandboxes[0].IPs = nil
				return l
			}(),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{0}},
		}, {
			name: "the sandbox died, policy Never: containers that have run do not run again",
			pod:  desiredPod(never, one), observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateExited, exit(1)),
			want: Actions{KillPod: true, SandboxID: "s", Attempt: 1},
		}, {
			name: "the sandbox died, policy Never, nothing had run",
			pod:  desiredPod(never, one), observed: (&observedPod{}).sandbox("s", false),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{0}},
		}, {
			name: "the sandbox died, policy Never, a container was only created",
			pod:  desiredPod(never, one), observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateCreated),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{0},
				Remove: []string{"c"}},
		}, {
			name:     "the sandbox died, policy OnFailure: what succeeded stays done",
			pod:      desiredPod(onFailure, two),
			observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateExited).in("d", "b", StateExited, exit(137)),
			want:     Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{1}},
		}, {
			name:     "the sandbox died, policy OnFailure, all succeeded: no new sandbox",
			pod:      desiredPod(onFailure, two),
			observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateExited).in("d", "b", StateExited),
			want:     Actions{KillPod: true, SandboxID: "s", Attempt: 1},
		}, {
			name: "the sandbox died, policy Never: containers that have never run are started",
			pod:  desiredPod(never, two), observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateExited, exit(1)),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{1}},
		}, {
			name: "the sandbox died, policy Never: containers that ran in it are not run again",
			pod:  desiredPod(never, one), observed: (&observedPod{}).sandbox("s", false).in("c", "a", StateRunning),
			want: Actions{KillPod: true, SandboxID: "s", Attempt: 1},
		}, {
			name: "the sandbox died, policy Never, after the init containers: they run again",
			pod:  desiredPod(never, one, "i"), observed: (&observedPod{}).sandbox("s", false).in("x", "i", StateExited),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, StartInit: []int{0}},
		}, {
			name: "the sandbox died, policy Never, while an init container ran: the pod has failed",
			pod:  desiredPod(never, one, "i"), observed: (&observedPod{}).sandbox("s", false).in("x", "i", StateRunning),
			want: Actions{KillPod: true, SandboxID: "s", Attempt: 1},
		}, {
			name: "the sandbox died, policy Never, after an init container failed",
			pod:  desiredPod(never, one, "i"), observed: (&observedPod{}).sandbox("s", false).in("x", "i", StateExited, exit(1)),
			want: Actions{KillPod: true, SandboxID: "s", Attempt: 1},
		}, {
			name: "the sandbox died: init containers run again from the first, the last end of each stays",
			pod:  desiredPod(always, one, "i", "j"),
			observed: (&observedPod{}).sandbox("s", false).in("w", "i", StateExited, exit(1)).in("x", "i", StateExited).
				in("y", "j", StateExited).in("c", "a", StateExited),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, StartInit: []int{0},
				RemoveInit: []string{"w"}},
		}, {
			name: "the sandbox died: sidecars start again in order",
			pod:  sidecar(desiredPod(always, one, "i", "s"), "s"),
			observed: (&observedPod{}).sandbox("b", false).in("x", "i", StateExited).in("y", "s", StateRunning).in("c", "a",
				StateExited),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "b", Attempt: 1, StartInit: []int{0}},
		}, {
			name:     "the sandbox died, the regular containers were done: sidecars alone need no new one",
			pod:      sidecar(desiredPod(onFailure, one, "s"), "s"),
			observed: (&observedPod{}).sandbox("b", false).in("y", "s", StateExited, exit(137)).in("c", "a", StateExited),
			want:     Actions{KillPod: true, SandboxID: "b", Attempt: 1},
		}, {
			name: "the sandbox died, policy Never: a container's own policy counts more",
			pod:  restarting(desiredPod(never, two), "b", v1.ContainerRestartPolicyOnFailure),
			observed: (&observedPod{}).sandbox("b", false).in("c", "a", StateExited, exit(255)).in("d", "b", StateExited,
				exit(255)),
			want: Actions{KillPod: true, CreateSandbox: true, SandboxID: "b", Attempt: 1, Start: []int{1}},
		},
	})
}
