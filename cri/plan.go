package cri

import (
	"time"

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
	Failed map[string]KillReason
	Now    time.Time
}

// Actions is what a pod needs so that observed becomes wanted.
type Actions struct {
	// KillPod ends all containers and sandboxes first.
	KillPod bool
	// CreateSandbox makes a new sandbox with Attempt; else SandboxID is kept.
	CreateSandbox bool
	SandboxID     string
	Attempt       uint32
	// Kill are the containers to end while the pod goes on.
	Kill []Kill
	// StartInit are indices into spec.initContainers, Start into
	// spec.containers, both in order.
	StartInit []int
	Start     []int
	// RemoveInit are instances of init containers that are history.
	RemoveInit []string
}
