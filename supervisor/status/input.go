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

// Cause is a CamelCase reason and a message for people.
type Cause struct {
	Reason  string
	Message string
}

// Terminal is a phase that a decision forced on a pod: a deadline, an
// eviction, a shutdown.
type Terminal struct {
	// Phase is Failed or Succeeded.
	Phase v1.PodPhase
	Cause
}

// Resize is a resize that could not be made.
type Resize struct {
	// Infeasible: it never can be here; Deferred: there is no room for it now.
	// Else it was tried and failed.
	Infeasible, Deferred bool
	Message              string
}

// Input is all that Generate looks at. Everything in it is only read. It has one field
// per argument of a pure function.
type Input struct {
	// Pod is the wanted pod. It must not be nil.
	Pod *v1.Pod
	// Observed is what the runtime shows; nil, or one without a time, means
	// that nobody has looked yet.
	Observed *cri.PodStatus
	// Record is the pod's durable record, the zero one if it has none.
	Record Record
	// Previous is the last published status, nil if there is none. From it
	// come the transition times, foreign conditions, and the memory of
	// containers that vanished.
	Previous *v1.PodStatus
	// Runtime is the runtime's name, the scheme of container IDs in the API
	// such as containerd://; without it they have none.
	Runtime string
	// Waiting says, by container name, why a container could not be started.
	// The name "" is the sandbox.
	Waiting map[string]cri.Waiting
	// Ready and Started are the probes' results by container ID. A running
	// container without an entry is ready, respectively started.
	Ready   map[string]bool
	Started map[string]bool
	// HostIPs are the node's addresses, the primary one first. The kubelet
	// without an API server reports none; nor do we if it is empty.
	HostIPs []string
	// ManifestFault is the fault of a newer revision of the pod's manifest,
	// empty if there is none.
	ManifestFault string
	// Resize is why the resources of running containers are not the wanted
	// ones; nil if they are.
	Resize *Resize
	// Refused is set when the pod was not admitted and never will be.
	Rejected *Cause
	// WaitingFor is set while something outside keeps the pod from starting,
	// such as a live pod of the same name that belongs to somebody else.
	WaitingFor *Cause
	// Terminal forces a phase; nil leaves it to the containers.
	Terminal *Terminal
	// Ended says that the pod is terminated and nothing of it runs: a
	// container whose end was not seen is then shown as lost.
	Ended bool
	// Now is the time of generation.
	Now time.Time

	// triggers are the instances for which all containers restart.
	triggers []*cri.Container
}

// again reports whether a container was removed so that it starts again with
// all others, and has not started yet.
func (in *Input) pendingRestart(name string) bool {
	return slices.Contains(in.Record.PendingRestart, name) && (in.Observed == nil || in.Observed.Newest(name) == nil)
}
