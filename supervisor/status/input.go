package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// ManifestFault is the type of the condition that shows that a newer revision
// of the pod's manifest is faulty and therefore not running.
const ManifestFault v1.PodConditionType = "podstead.io/ManifestFault"

// RevisionHeld is the type of the condition that shows that the newest revision of the
// pod's manifest is valid and not in effect: it is prepared, or was rolled back.
const RevisionHeld v1.PodConditionType = "podstead.io/RevisionHeld"

// EnvironmentOutdated is the type of the condition that shows that containers run with the
// environment of a previous version of a ConfigMap or Secret.
const EnvironmentOutdated v1.PodConditionType = "podstead.io/EnvironmentOutdated"

// Cause is a CamelCase reason and a message for users.
type Cause struct {
	Reason  string
	Message string
}

// Terminal is a terminal phase that a decision sets: a deadline, an eviction, a
// shutdown.
type Terminal struct {
	// Phase is Failed or Succeeded.
	Phase v1.PodPhase
	Cause
}

// Resize is what the status shows of a resize. The zero value is none.
type Resize struct {
	// Pending is why the desired resources are not allocated, with the reason
	// Infeasible or Deferred; nil if they are.
	Pending *ResizeStep
	// InProgress is set while the allocated resources are not those of what runs,
	// with the reason Error after a failed attempt; nil otherwise.
	InProgress *ResizeStep
}

// ResizeStep is one condition of a resize.
type ResizeStep struct {
	Cause
	// Generation is that of the pod whose resources it is about, 0 if it has none.
	Generation int64
}

// Input is everything that Generate reads. It has more than 15 fields because
// Generate is one pure function of all of them. Nothing in it is written.
type Input struct {
	// Pod is the desired pod. It must not be nil.
	Pod *v1.Pod
	// Observed is what the runtime shows; nil, or one without a time, means that
	// nothing was observed yet.
	Observed *cri.PodStatus
	// Record is the pod's durable record, the zero one if it has none.
	Record Record
	// Previous is the last published status, nil if there is none. It has the
	// transition times, foreign conditions, and the containers that vanished.
	Previous *v1.PodStatus
	// Runtime is the runtime's name, the scheme of container IDs in the API such as
	// containerd://; empty omits the scheme.
	Runtime string
	// Waiting is, by container name, why a container could not be started. The name
	// "" is the sandbox.
	Waiting map[string]cri.Waiting
	// Ready and Started are the probe results by container ID. A running container
	// without an entry is ready or started.
	Ready   map[string]bool
	Started map[string]bool
	// HostIPs are the node's addresses, the primary one first. If empty, the status
	// has none, as at a kubelet without an API server.
	HostIPs []string
	// ManifestFault is the fault of a newer revision of the pod's manifest,
	// empty if there is none.
	ManifestFault string
	// RevisionHeld is why the newest revision of the manifest is not in effect; nil if it
	// is.
	RevisionHeld *Cause
	// Outdated reports which containers run with a previous ConfigMap or Secret, empty for none.
	Outdated string
	// Resize is why the resources of running containers are not the desired
	// ones, zero if they are.
	Resize Resize
	// Devices is the health of the devices of containers, by container name.
	Devices map[string][]v1.ResourceStatus
	// Rejected is set when the pod was not admitted and never will be.
	Rejected *Cause
	// WaitingFor is set while something outside of the pod keeps it from starting,
	// such as a running pod of the same name that another client manages.
	WaitingFor *Cause
	// KillFault is why the pod could not be stopped or removed; nil if that did not
	// fail.
	KillFault *Cause
	// Terminal forces a phase; nil leaves it to the containers.
	Terminal *Terminal
	// Ended: the pod has terminated and nothing of it runs. A container whose exit
	// was not observed is then shown as lost.
	Ended bool
	// Now is the time of generation.
	Now time.Time

	// triggers are the instances that cause the restart of all containers.
	triggers []*cri.Container
}

// pendingRestart reports whether a container was removed to restart with all others,
// and was not created again yet.
func (in *Input) pendingRestart(name string) bool {
	return slices.Contains(in.Record.PendingRestart, name) && (in.Observed == nil || in.Observed.Newest(name) == nil)
}
