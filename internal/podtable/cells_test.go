package podtable

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Sidecars count as containers, and block the pod only until it is initialized.
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
		{"sidecar runs", v1.ContainerStatus{State: runs, Started: &no}, v1.ContainerStatus{State: todo},
			v1.ContainerStatus{State: todo}, false, "Init:0/2", 0},
		{"sidecar has started", v1.ContainerStatus{State: runs, Started: &yes, Ready: true}, v1.ContainerStatus{State: runs},
			v1.ContainerStatus{State: todo}, false, "Init:1/2", 1},
		{"sidecar crashes", v1.ContainerStatus{State: crashed, Started: &no}, v1.ContainerStatus{State: todo},
			v1.ContainerStatus{State: todo}, false, "Init:CrashLoopBackOff", 0},
		{"all run", v1.ContainerStatus{State: runs, Started: &yes, Ready: true}, v1.ContainerStatus{State: ended},
			v1.ContainerStatus{State: runs, Ready: true}, true, "Running", 2},
		{"sidecar crashes later", v1.ContainerStatus{State: crashed, Started: &no}, v1.ContainerStatus{State: ended},
			v1.ContainerStatus{State: runs, Ready: true}, true, "Running", 1},
		{"work is done", v1.ContainerStatus{State: ended, Started: &no}, v1.ContainerStatus{State: ended},
			v1.ContainerStatus{State: ended}, true, "Completed", 0},
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

// The state of a failed pod is not Completed.
func TestStateOfFailedPod(t *testing.T) {
	ended := func(code int32, reason string) v1.ContainerStatus {
		return v1.ContainerStatus{State: v1.ContainerState{
			Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}
	}
	for _, c := range []struct {
		phase v1.PodPhase
		codes []v1.ContainerStatus
		want  string
	}{
		{v1.PodFailed, []v1.ContainerStatus{ended(0, "Completed"), ended(7, "Error")}, "Error"},
		{v1.PodFailed, []v1.ContainerStatus{ended(137, "OOMKilled"), ended(0, "Completed")}, "OOMKilled"},
		{v1.PodSucceeded, []v1.ContainerStatus{ended(0, "Completed"), ended(0, "Completed")}, "Completed"},
	} {
		p := &v1.Pod{Status: v1.PodStatus{Phase: c.phase, ContainerStatuses: c.codes}}
		if got := State(p); got != c.want {
			t.Errorf("%s: %s, want %s", c.phase, got, c.want)
		}
	}
}

func TestMessageOfAProgramThatEndsByItself(t *testing.T) {
	never := v1.ContainerRestartPolicyNever
	for name, c := range map[string]struct {
		policy v1.RestartPolicy
		own    *v1.ContainerRestartPolicy
		code   int32
		want   bool
	}{
		"a server by default":       {v1.RestartPolicyAlways, nil, 0, true},
		"a failure":                 {v1.RestartPolicyAlways, nil, 1, false},
		"a policy of the pod":       {v1.RestartPolicyOnFailure, nil, 0, false},
		"a policy of the container": {v1.RestartPolicyAlways, &never, 0, false},
	} {
		p := v1.Pod{Spec: v1.PodSpec{RestartPolicy: c.policy,
			Containers: []v1.Container{{Name: "main", RestartPolicy: c.own}}}}
		p.Status.ContainerStatuses = []v1.ContainerStatus{{
			Name: "main",
			State: v1.ContainerState{
				Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}},
			LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: c.code}},
		}}
		if got := Message(&p); strings.HasSuffix(got, "use restartPolicy OnFailure or Never") != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A pod whose sandbox cannot be created has the error of the runtime as its message, which is shortened as those of
// containers are; other messages of pods stay as they are.
func TestMessageOfAPod(t *testing.T) {
	for message, want := range map[string]string{
		`Failed to create pod sandbox: failed to get sandbox image "pause:1": failed to pull image "pause:1": failed to ` +
			`pull and unpack image "pause:1": no space left on device`: "cannot pull the sandbox image pause:1: no space left " +
			"on device; podstead check prints how to load it",
		"failed to write the volume x: no space left on device": "failed to write the volume x: no space left on device",
	} {
		p := v1.Pod{Status: v1.PodStatus{Message: message}}
		if got := Message(&p); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}
