package cri

import (
	v1 "k8s.io/api/core/v1"
)

// KillReason is why a container is killed.
type KillReason string

// The reasons for killing a container of a pod that keeps running.
const (
	KillChanged  KillReason = "DefinitionChanged"
	KillLiveness KillReason = "LivenessProbe"
	KillStartup  KillReason = "StartupProbe"
	KillUnknown  KillReason = "StateUnknown"
	// KillResize restarts a container to change its resources.
	KillResize KillReason = "Resize"
	// KillRestartAll kills all containers because one that has exited requires
	// it.
	KillRestartAll KillReason = "RestartAllContainers"
	// KillSurplus kills what should not exist: a second running instance of a
	// container, or a container that is not in the pod's spec.
	KillSurplus KillReason = "Surplus"
)

// Kill is one container to kill.
type Kill struct {
	ID      string
	Name    string
	Reason  KillReason
	Message string
	// Grace in seconds overrides the pod's grace period; nil leaves it.
	Grace *int64
}

// PlanInput is the whole input of Plan.
type PlanInput struct {
	Pod    *v1.Pod
	Status *PodStatus
	// FailedProbes has failed liveness and startup probes, by container ID; nil
	// means none failed.
	FailedProbes map[string]KillReason
	// ChangedObjects names, by container ID, the object that a container was
	// created from and that has changed so that the container must be replaced.
	ChangedObjects map[string]string
	// Started has results of startup probes, by container ID. A container that
	// has a startup probe and no entry has not started. If the map is nil,
	// nothing is probed, and what runs has started.
	Started map[string]bool
	// Resizes are the resizes of running containers to make now.
	Resizes []Resize
	// Restarting has, by container name, the ID of the instance that was killed to be
	// restarted. Its successor starts whatever its exit code was.
	Restarting map[string]string
	// Ran has the ephemeral containers by name that are known to have run, although the
	// runtime may not have them any more.
	Ran map[string]bool
}

// Actions is what brings a pod from the observed to the desired state, in the
// order of the fields.
type Actions struct {
	// KillPod terminates all containers and sandboxes first.
	KillPod bool
	// Kill are the containers to kill while the pod keeps running.
	Kill []Kill
	// RemoveInit are old instances of init containers.
	RemoveInit []string
	// Remove are containers that were created, never started and are not needed.
	Remove []string
	// Resize are the changes of resources of containers that keep running.
	Resize []Resize
	// CreateSandbox creates a new sandbox with Attempt; else SandboxID is kept
	// and Attempt is its own.
	CreateSandbox bool
	SandboxID     string
	Attempt       uint32
	// StartEphemeral are indices into spec.ephemeralContainers. They start first.
	StartEphemeral []int
	// StartInit are indices into spec.initContainers, Start into spec.containers,
	// both in order.
	StartInit []int
	Start     []int
	// RestartAll is set if all containers restart in the existing sandbox. Then
	// nothing is started yet: first what runs is killed, and then, when a new
	// status shows how it exited, all is removed.
	RestartAll *RestartAll
	// Created has, by container name, an instance that was created in the kept
	// sandbox from the desired definition and never started: it is started instead
	// of creating another one.
	Created map[string]string
}

// RestartAll is the restart of all containers of a pod by a rule.
type RestartAll struct {
	// Trigger is the instance whose exit triggers it. Its crash-loop back-off is
	// that of the whole pod.
	Trigger *Container
	// Remove are all instances in the order of removal, those that trigger the
	// restart last: a daemon that finds the pod half way through continues with
	// it.
	Remove []string
}

// Plan compares the desired with the observed state of a pod. It is the kubelet's
// computePodActions, with these differences: it judges a container by the sandbox
// it is in, so that what an earlier sandbox left (after a power loss, say) never
// counts as progress in the present one, and need not be removed; it uses a
// container that was created but never started; and it kills second instances.
func Plan(in PlanInput) Actions {
	v := newPlanner(in)
	if triggers := RestartTriggers(v.Pod, v.Status); len(triggers) > 0 {
		return v.restartAll(triggers)
	}
	if v.Status.UsableSandbox(v.Pod.Spec.HostNetwork) == nil {
		return v.recreateSandbox()
	}
	a := Actions{SandboxID: v.sandbox.ID, Attempt: v.sandbox.Attempt}
	v.planKills(&a)
	v.pruneInit(&a)
	v.planEphemeral(&a)
	if v.planInit(&a) {
		v.planRegular(&a)
	}
	if v.Pod.DeletionTimestamp != nil {
		a.StartInit = nil
	}
	if a.KillPod {
		// Everything else ends with the pod.
		a.Kill, a.StartEphemeral, a.StartInit, a.Start = nil, nil, nil, nil
	}
	v.planResizes(&a)
	v.planCreated(&a)
	return a
}
