package cri

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// debugged adds ephemeral containers to a pod.
func debugged(pod *v1.Pod, names ...string) *v1.Pod {
	for _, c := range desiredPod("", names).Spec.Containers {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers,
			v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon(c)})
	}
	return pod
}

func TestPlanEphemeral(t *testing.T) {
	reported := debugged(desiredPod(always, one), "e")
	reported.Status.EphemeralContainerStatuses = []v1.ContainerStatus{
		{Name: "e", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}
	testPlan(t, []planCase{
		{
			name:     "it starts in a running pod",
			pod:      debugged(desiredPod(always, one), "e"),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning),
			want:     Actions{SandboxID: "s", StartEphemeral: []int{0}},
		}, {
			name:     "it starts while the pod is still initializing",
			pod:      debugged(desiredPod(always, one, "i"), "e"),
			observed: (&observedPod{}).sandbox("s", true).in("x", "i", StateRunning),
			want:     Actions{SandboxID: "s", StartEphemeral: []int{0}},
		}, {
			name: "no sandbox yet: the pod starts first",
			pod:  debugged(desiredPod(always, one), "e"), observed: &observedPod{},
			want: Actions{CreateSandbox: true, Start: []int{0}},
		}, {
			name:     "one runs, another is added",
			pod:      debugged(desiredPod(always, one), "e", "f"),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "e", StateRunning),
			want:     Actions{SandboxID: "s", StartEphemeral: []int{1}},
		}, {
			name:     "it is never started again, whatever the policy",
			pod:      debugged(desiredPod(always, one), "e"),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "e", StateExited, exit(1)),
			want:     Actions{SandboxID: "s"},
		}, {
			name: "not started again in another sandbox",
			pod:  debugged(desiredPod(always, one), "e"),
			observed: (&observedPod{}).sandbox("s", false).in("d", "e", StateExited).sandbox("u", true).in("c", "a",
				StateRunning),
			want: Actions{SandboxID: "u", Attempt: 1},
		}, {
			name: "not started again after it was removed",
			pod:  reported, observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning),
			want: Actions{SandboxID: "s"},
		}, {
			name:     "a created one is started, not created again",
			pod:      debugged(desiredPod(always, one), "e"),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "e", StateCreated),
			want:     Actions{SandboxID: "s", StartEphemeral: []int{0}, Created: map[string]string{"e": "d"}},
		}, {
			name:     "it does not keep the pod running",
			pod:      debugged(desiredPod(never, one), "e"),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateExited).in("d", "e", StateRunning),
			want:     Actions{SandboxID: "s", KillPod: true},
		}, {
			name:     "a deleted pod gets none",
			pod:      deleted(debugged(desiredPod(always, one), "e")),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning),
			want:     Actions{SandboxID: "s"},
		}, {
			name:     "one in an unknown state is killed and not started again",
			pod:      debugged(desiredPod(always, one), "e"),
			observed: (&observedPod{}).sandbox("s", true).in("c", "a", StateRunning).in("d", "e", StateUnknown),
			want:     Actions{SandboxID: "s", Kill: []Kill{killed("d", "e", KillUnknown)}},
		},
	})
}

// Ephemeral containers keep running when all containers of the pod restart.
func TestPlanRestartAllLeavesEphemeral(t *testing.T) {
	pod := debugged(restarting(desiredPod(always, two), "a", ownNever, on(restartAll, 42)), "e")
	l := (&observedPod{}).sandbox("s", true).in("c", "a", StateExited, exit(42)).in("d", "b", StateRunning).in("x", "e",
		StateRunning)
	got := Plan(PlanInput{Pod: pod, Status: &l.status})
	if len(got.Kill) != 1 || got.Kill[0].ID != "d" || got.RestartAll == nil ||
		!slices.Equal(got.RestartAll.Remove, []string{"d", "c"}) {
		t.Errorf("%+v %+v", got.Kill, got.RestartAll)
	}
}

// An ephemeral container shares the PID namespace of its target, or else the
// one that any container of the pod would get.
func TestEphemeralTarget(t *testing.T) {
	pod := debugged(desiredPod(always, one), "e")
	c := Ephemeral(pod)[0]
	in := containerInput{target: "target-id"}
	if o := (config{}).container(pod, &c,
		in).Linux.SecurityContext.NamespaceOptions; o.Pid != runtimeapi.NamespaceMode_TARGET || o.TargetId != "target-id" {
		t.Errorf("namespaces %v", o)
	}
	in.target = ""
	if o := (config{}).container(pod, &c,
		in).Linux.SecurityContext.NamespaceOptions; o.Pid != runtimeapi.NamespaceMode_CONTAINER || o.TargetId != "" {
		t.Errorf("namespaces without %v", o)
	}
}
