package podtable

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Sidecars count among the containers, and hold the pod up only until it has
// been initialized.
func TestSidecars(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	yes, no := true, false
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	crashed := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 0, Reason: "Completed"}}
	todo := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "PodInitializing"}}
	for _, c := range []struct {
		name             string
		side, init, main v1.ContainerStatus
		initialized      bool
		state            string
		ready            int
	}{
		{"sidecar runs", v1.ContainerStatus{State: runs, Started: &no}, v1.ContainerStatus{State: todo}, v1.ContainerStatus{State: todo}, false, "Init:0/2", 0},
		{"sidecar has started", v1.ContainerStatus{State: runs, Started: &yes, Ready: true}, v1.ContainerStatus{State: runs}, v1.ContainerStatus{State: todo}, false, "Init:1/2", 1},
		{"sidecar crashes", v1.ContainerStatus{State: crashed, Started: &no}, v1.ContainerStatus{State: todo}, v1.ContainerStatus{State: todo}, false, "Init:CrashLoopBackOff", 0},
		{"all run", v1.ContainerStatus{State: runs, Started: &yes, Ready: true}, v1.ContainerStatus{State: ended}, v1.ContainerStatus{State: runs, Ready: true}, true, "Running", 2},
		{"sidecar crashes later", v1.ContainerStatus{State: crashed, Started: &no}, v1.ContainerStatus{State: ended}, v1.ContainerStatus{State: runs, Ready: true}, true, "Running", 1},
		{"work is done", v1.ContainerStatus{State: ended, Started: &no}, v1.ContainerStatus{State: ended}, v1.ContainerStatus{State: ended}, true, "Completed", 0},
	} {
		p := &v1.Pod{}
		p.Spec.InitContainers = []v1.Container{{Name: "side", RestartPolicy: &always}, {Name: "init"}}
		p.Spec.Containers = []v1.Container{{Name: "main"}}
		c.side.Name, c.init.Name, c.main.Name = "side", "init", "main"
		p.Status.Phase = v1.PodRunning
		p.Status.InitContainerStatuses = []v1.ContainerStatus{c.side, c.init}
		p.Status.ContainerStatuses = []v1.ContainerStatus{c.main}
		if c.initialized {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodInitialized, Status: v1.ConditionTrue}}
		}
		ready, _, _ := Tally(p)
		if got := State(p); got != c.state || ready != c.ready || Containers(p) != 2 {
			t.Errorf("%s: %s with %d of %d ready, want %s with %d of 2", c.name, got, ready, Containers(p), c.state, c.ready)
		}
	}
}
