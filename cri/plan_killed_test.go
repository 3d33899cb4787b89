package cri

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

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
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	exited := func(at time.Time) Container {
		c := instance("a", StateExited)
		c.FinishedAt = at
		return c
	}
	still := map[string]KilledInstance{"app": {"a", end}}
	failed := map[string]KillReason{"a": KillLiveness}
	for name, c := range map[string]struct {
		policy     v1.RestartPolicy
		own        *v1.ContainerRestartPolicy
		init       bool
		sandboxes  []Sandbox
		containers []Container
		probes     map[string]KillReason
		known      map[string]KilledInstance
		want       map[string]string
	}{
		"a failed probe": {v1.RestartPolicyOnFailure, nil, false, ready,
			[]Container{instance("a", StateRunning)}, failed, nil, map[string]string{"app": "a"}},
		"a failed probe of one that ends": {v1.RestartPolicyNever, nil, false, ready,
			[]Container{instance("a", StateRunning)}, failed, nil, nil},
		"a failed probe of one that restarts": {v1.RestartPolicyAlways, nil, false, ready,
			[]Container{instance("a", StateRunning)}, failed, nil, nil},
		"a policy of its own": {v1.RestartPolicyNever, &always, false, ready,
			[]Container{instance("a", StateRunning)}, failed, nil, map[string]string{"app": "a"}},
		"one of its own that ends": {v1.RestartPolicyAlways, &never, false, ready,
			[]Container{instance("a", StateRunning)}, failed, nil, nil},
		"nothing to do": {v1.RestartPolicyOnFailure, nil, false, ready,
			[]Container{instance("a", StateRunning)}, nil, nil, nil},
		"no reason any more": {v1.RestartPolicyOnFailure, nil, false, ready,
			[]Container{instance("a", StateRunning)}, nil, still, nil},
		"it has exited": {v1.RestartPolicyOnFailure, nil, false, ready,
			[]Container{instance("a", StateExited)}, nil, still, map[string]string{"app": "a"}},
		"it has exited by itself": {v1.RestartPolicyOnFailure, nil, false, ready,
			[]Container{instance("a", StateExited)}, nil, nil, nil},
		"its successor was created": {v1.RestartPolicyOnFailure, nil, false, ready,
			[]Container{instance("b", StateCreated), instance("a", StateExited)}, nil, still, map[string]string{"app": "a"}},
		"its successor runs": {v1.RestartPolicyOnFailure, nil, false, ready,
			[]Container{instance("b", StateRunning), instance("a", StateExited)}, nil, still, nil},
		"its successor has exited": {v1.RestartPolicyOnFailure, nil, false, ready,
			[]Container{instance("b", StateExited), instance("a", StateExited)}, nil, still, nil},
		"its sandbox is dead": {v1.RestartPolicyOnFailure, nil, false, dead,
			[]Container{instance("a", StateRunning)}, nil, nil, map[string]string{"app": "a"}},
		"its sandbox is dead, init containers": {v1.RestartPolicyOnFailure, nil, true, dead,
			[]Container{instance("a", StateRunning)}, nil, nil, map[string]string{"app": "a"}},
		"its sandbox is dead, it ends": {v1.RestartPolicyNever, nil, false, dead,
			[]Container{instance("a", StateRunning)}, nil, nil, nil},
		"it ended in time": {v1.RestartPolicyOnFailure, nil, false, ready, []Container{exited(end)}, nil,
			still, map[string]string{"app": "a"}},
		"it outlived its kill": {v1.RestartPolicyOnFailure, nil, false, ready,
			[]Container{exited(end.Add(1))}, nil, still, nil},
		"it is in unknown state, it ends": {v1.RestartPolicyNever, nil, false, ready,
			[]Container{instance("a", StateUnknown)}, nil, nil, nil},
		"it is in unknown state and has a rule": {v1.RestartPolicyNever, &always, false, ready,
			[]Container{instance("a", StateUnknown)}, nil, nil, map[string]string{"app": "a"}},
		"it is in unknown state": {v1.RestartPolicyOnFailure, nil, false, ready, []Container{instance("a", StateUnknown)},
			nil, nil, map[string]string{"app": "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: c.policy,
				Containers: []v1.Container{{Name: "app", RestartPolicy: c.own}}}}
			if c.init {
				pod.Spec.InitContainers = []v1.Container{{Name: "init"}}
			}
			r := SyncRequest{Pod: pod, Status: &PodStatus{Sandboxes: c.sandboxes, Containers: c.containers,
				IPs: []string{"10.0.0.1"}}, FailedProbes: c.probes}
			r.Restarting = Restarting(c.known, r.Status)
			got := r.KilledToRestart(c.known)
			if got := Restarting(got, r.Status); !maps.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A kill is over after the grace period that it has, and the time that the call may take.
func TestKilledToRestartUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grace, ofProbe := int64(600), int64(5)
		pod := &v1.Pod{Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyOnFailure, TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{{Name: "app"}},
		}}
		r := SyncRequest{Pod: pod, FailedProbes: map[string]KillReason{"a": KillLiveness}, Status: &PodStatus{
			Sandboxes:  []Sandbox{{ID: "s", Ready: true, IPs: []string{"10.0.0.1"}}},
			Containers: []Container{{ID: "a", Name: "app", SandboxID: "s", State: StateRunning}},
		}}
		if got, want := r.KilledToRestart(nil)["app"].Until, time.Now().Add(10*time.Minute+killMargin); !got.Equal(want) {
			t.Errorf("until %s, want %s", got, want)
		}
		pod.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: &ofProbe}
		if got, want := r.KilledToRestart(nil)["app"].Until, time.Now().Add(5*time.Second+killMargin); !got.Equal(want) {
			t.Errorf("with the probe's grace period until %s, want %s", got, want)
		}
	})
}
