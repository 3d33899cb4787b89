package status

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// Ephemeral containers have statuses of their own, and do not affect the pod's.
func TestEphemeralStatuses(t *testing.T) {
	pod := pod("Always", containers("a"))
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{
		{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "x"}}}
	observed := &cri.PodStatus{At: time.Unix(1, 0), Sandboxes: []cri.Sandbox{{ID: "s", Ready: true}},
		Containers: []cri.Container{{ID: "c", Name: "a", State: cri.StateRunning, SandboxID: "s"}}}
	show := func(previous *v1.PodStatus, more ...cri.Container) v1.PodStatus {
		t.Helper()
		o := *observed
		o.Containers = append(more, observed.Containers...)
		st := Generate(Input{Pod: pod, Observed: &o, Previous: previous, Now: time.Unix(2, 0)})
		if st.Phase != v1.PodRunning || len(st.ContainerStatuses) != 1 || len(st.EphemeralContainerStatuses) != 1 {
			t.Fatalf("status %+v", st)
		}
		return st
	}
	stateOf := func(st v1.PodStatus) v1.ContainerState { return st.EphemeralContainerStatuses[0].State }
	waiting := show(nil)
	if stateOf(waiting).Waiting == nil {
		t.Errorf("before it starts: %+v", waiting.EphemeralContainerStatuses)
	}
	running := show(&waiting, cri.Container{ID: "d", Name: "e", State: cri.StateRunning, SandboxID: "s"})
	if stateOf(running).Running == nil || running.EphemeralContainerStatuses[0].Started != nil {
		t.Errorf("running: %+v", running.EphemeralContainerStatuses)
	}
	failed := show(&running, cri.Container{ID: "d", Name: "e", State: cri.StateExited, ExitCode: 3, SandboxID: "s"})
	if end := stateOf(failed).Terminated; end == nil || end.ExitCode != 3 {
		t.Errorf("ended: %+v", failed.EphemeralContainerStatuses)
	}
	if lost := show(&running); stateOf(lost).Terminated == nil || lost.EphemeralContainerStatuses[0].RestartCount != 0 {
		t.Errorf("it vanished: %+v", lost.EphemeralContainerStatuses)
	}
	// The container is removed, and the daemon is a new one: the API server
	// has its last state.
	pod.Status.EphemeralContainerStatuses = failed.EphemeralContainerStatuses
	if end := stateOf(show(nil)).Terminated; end == nil || end.ExitCode != 3 {
		t.Error("its last state is lost")
	}
}
