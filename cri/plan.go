package cri

import (
	v1 "k8s.io/api/core/v1"
)

// KillReason says why a container is killed.
type KillReason string

// The reasons for killing a container of a pod that goes on.
const (
	KillChanged  KillReason = "DefinitionChanged"
	KillLiveness KillReason = "LivenessProbe"
	KillStartup  KillReason = "StartupProbe"
	KillUnknown  KillReason = "StateUnknown"
	// KillResize restarts a container for other resources.
	KillResize KillReason = "Resize"
	// KillRestartAll ends all containers for the sake of one that has ended.
	KillRestartAll KillReason = "RestartAllContainers"
	// KillSurplus ends what should never be: a second running instance of a
	// container, or a container that the pod does not have.
	KillSurplus KillReason = "Surplus"
)

// Kill is one container to end.
type Kill struct {
	ID      string
	Name    string
	Reason  KillReason
	Message string
	// Grace in seconds overrides the pod's grace period; nil leaves it.
	Grace *int64
}

// PlanInput is all that Plan looks at.
type PlanInput struct {
	Pod    *v1.Pod
	Status *PodStatus
	// Failed tells of probes, by container ID; nil means none failed.
	FailedProbes map[string]KillReason
	// Changed has, by container ID, what of the objects that a container was
	// made of has changed such that it is to be made anew.
	ChangedObjects map[string]string
	// Started tells of startup probes, by container ID. A container that has
	// one and no entry has not started. If it is nil nobody probes, and what
	// runs has started.
	Started map[string]bool
	// Resizes are those of running containers that are to be made now.
	Resizes []Resize
}

// Actions is what a pod needs so that observed becomes wanted. They are done
// in the order of the fields.
type Actions struct {
	// KillPod ends all containers and sandboxes first.
	KillPod bool
	// Kill are the containers to end while the pod goes on.
	Kill []Kill
	// RemoveInit are instances of init containers that are history.
	RemoveInit []string
	// Remove are containers that were created, never started and are of no use.
	Remove []string
	// Resize are the changes of resources of containers that go on running.
	Resize []Resize
	// CreateSandbox makes a new sandbox with Attempt; else SandboxID is kept
	// and Attempt is its own.
	CreateSandbox bool
	SandboxID     string
	Attempt       uint32
	// StartEphemeral are indices into spec.ephemeralContainers. They start first.
	StartEphemeral []int
	// StartInit are indices into spec.initContainers, Start into
	// spec.containers, both in order.
	StartInit []int
	Start     []int
	// RestartAll is set if all containers start again in the sandbox that there
	// is. Then nothing is started yet: first what runs is killed, and then,
	// when a look has shown how it ended, all is removed.
	RestartAll *RestartAll
	// Created has, by container name, an instance that was created in the kept
	// sandbox from the wanted definition and never started: it is started
	// instead of another one being made.
	Created map[string]string
}

// RestartAll is the restart of all containers of a pod by a rule.
type RestartAll struct {
	// Trigger is the instance whose end calls for it. Its crash-loop back-off
	// is that of the whole pod.
	Trigger *Container
	// Remove are all instances in the order in which they are removed, those
	// that call for the restart last: a daemon that comes upon the pod half way
	// goes on with it.
	Remove []string
}

// Plan compares what is wanted of a pod with what was observed of it. It is
// the kubelet's computePodActions, but for these: it judges a container by the
// sandbox it is in, so that what an earlier sandbox left (after a power loss,
// say) is never taken for progress in the present one, and need not be removed;
// it uses a container that was made but never started; and it ends second
// instances.
func Plan(in PlanInput) Actions {
	v := newPlanner(in)
	if triggers := RestartTriggers(v.Pod, v.Status); len(triggers) > 0 {
		return v.restartAll(triggers)
	}
	if !v.sandboxUsable() {
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
		// Whatever else was found ends with the pod.
		a.Kill, a.StartEphemeral, a.StartInit, a.Start = nil, nil, nil, nil
	}
	v.planResizes(&a)
	v.planCreated(&a)
	return a
}
