package cri

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The instances that are killed to be restarted are known before they are, and until their
// successors have started.
func TestKilledToRestart(t *testing.T) {
	always, never := v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever
	ready := []Sandbox{{ID: "s", Ready: true, IPs: []string{"10.0.0.1"}}}
	dead := []Sandbox{{ID: "s"}}
	instance := func(id string, state State) Container {
		return Container{ID: id, Name: "app", SandboxID: "s", State: state}
	}
	failed := map[string]KillReason{"a": KillLiveness}
	for name, c := range map[string]struct {
		policy     v1.RestartPolicy
		own        *v1.ContainerRestartPolicy
		init       bool
		sandboxes  []Sandbox
		containers []Container
		probes     map[string]KillReason
		known      map[string]string
		want       map[string]string
	}{
		"a failed probe":                       {v1.RestartPolicyOnFailure, nil, false, ready, []Container{instance("a", StateRunning)}, failed, nil, map[string]string{"app": "a"}},
		"a failed probe of one that ends":      {v1.RestartPolicyNever, nil, false, ready, []Container{instance("a", StateRunning)}, failed, nil, nil},
		"a failed probe of one that restarts":  {v1.RestartPolicyAlways, nil, false, ready, []Container{instance("a", StateRunning)}, failed, nil, nil},
		"a policy of its own":                  {v1.RestartPolicyNever, &always, false, ready, []Container{instance("a", StateRunning)}, failed, nil, map[string]string{"app": "a"}},
		"one of its own that ends":             {v1.RestartPolicyAlways, &never, false, ready, []Container{instance("a", StateRunning)}, failed, nil, nil},
		"nothing to do":                        {v1.RestartPolicyOnFailure, nil, false, ready, []Container{instance("a", StateRunning)}, nil, nil, nil},
		"no reason any more":                   {v1.RestartPolicyOnFailure, nil, false, ready, []Container{instance("a", StateRunning)}, nil, map[string]string{"app": "a"}, nil},
		"it has exited":                        {v1.RestartPolicyOnFailure, nil, false, ready, []Container{instance("a", StateExited)}, nil, map[string]string{"app": "a"}, map[string]string{"app": "a"}},
		"it has exited by itself":              {v1.RestartPolicyOnFailure, nil, false, ready, []Container{instance("a", StateExited)}, nil, nil, nil},
		"its successor was created":            {v1.RestartPolicyOnFailure, nil, false, ready, []Container{instance("b", StateCreated), instance("a", StateExited)}, nil, map[string]string{"app": "a"}, map[string]string{"app": "a"}},
		"its successor runs":                   {v1.RestartPolicyOnFailure, nil, false, ready, []Container{instance("b", StateRunning), instance("a", StateExited)}, nil, map[string]string{"app": "a"}, nil},
		"its successor has exited":             {v1.RestartPolicyOnFailure, nil, false, ready, []Container{instance("b", StateExited), instance("a", StateExited)}, nil, map[string]string{"app": "a"}, nil},
		"its sandbox is dead":                  {v1.RestartPolicyOnFailure, nil, false, dead, []Container{instance("a", StateRunning)}, nil, nil, map[string]string{"app": "a"}},
		"its sandbox is dead, init containers": {v1.RestartPolicyOnFailure, nil, true, dead, []Container{instance("a", StateRunning)}, nil, nil, map[string]string{"app": "a"}},
		"its sandbox is dead, it ends":         {v1.RestartPolicyNever, nil, false, dead, []Container{instance("a", StateRunning)}, nil, nil, nil},
		"it is in unknown state":               {v1.RestartPolicyOnFailure, nil, false, ready, []Container{instance("a", StateUnknown)}, nil, nil, map[string]string{"app": "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: c.policy, Containers: []v1.Container{{Name: "app", RestartPolicy: c.own}}}}
			if c.init {
				pod.Spec.InitContainers = []v1.Container{{Name: "init"}}
			}
			r := SyncRequest{Pod: pod, Status: &PodStatus{Sandboxes: c.sandboxes, Containers: c.containers, IPs: []string{"10.0.0.1"}}, FailedProbes: c.probes, Restarting: c.known}
			if got := r.KilledToRestart(c.known); !maps.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
