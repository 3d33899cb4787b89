package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest/validation"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/pleg"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/runtimehealth"
	"github.com/podstead/podstead/supervisor/status"
)

// Reasons of pods that wait, the kubelet's where it has them.
const (
	reasonNetworkNotReady = "NetworkNotReady"
	// reasonUnsupported: the pod asks for what this node cannot do.
	reasonUnsupported = "PodFeatureUnsupported"
	// reasonPredecessor: an earlier revision is still terminating.
	reasonPredecessor = "WaitingForPredecessor"
	// reasonNotBefore: the time of a restart has not come.
	reasonNotBefore = "WaitingToRunAgain"
	// reasonWaitingForAPI: the API server has not delivered an object that the pod
	// refers to.
	reasonWaitingForAPI = "WaitingForAPIServer"
	// reasonTooManyReferences: the pod, or all pods, refer to more objects than are watched.
	reasonTooManyReferences = "TooManyReferences"
)

const (
	// networkBackoff is the wait for a network that is not ready.
	networkBackoff = time.Second
	// bootNetworkPoll is the interval at which the host's network is checked, for the first minutes
	// after its boot.
	bootNetworkPoll = time.Second
	// apiWaitGrace is how long a pod waits for the API server before its status
	// shows so: mostly the objects come right after the pod.
	apiWaitGrace = 2 * time.Second
)

// errNetworkNotReady is not logged for each pod: the runtime's state is, once.
var errNetworkNotReady = errors.New("network of the runtime is not ready")

// startChecker checks whether a sandbox may be created for a pod.
type startChecker struct {
	observer *pleg.PLEG
	runtime  *runtimehealth.Monitor
	node     *admit.Node
	inputs   *podinputs.Resolver
	registry *registry
	events   Recorder
}

// check returns what blocks the start of a pod, apart from the resources that it
// requests; nil if nothing does.
func (s *startChecker) check(pod *v1.Pod) *noderesources.Refusal {
	all := s.observer.Observed()
	if all.At.IsZero() {
		// The first relist is in progress; without it nothing shows whether another
		// pod of this name runs.
		return &noderesources.Refusal{KeepsPlace: true,
			Result: podworkers.SyncResult{Held: true, After: runtimehealth.BackoffMin}}
	}
	if cause := unsupported(pod); cause != nil {
		return noderesources.Held(cause)
	}
	if refusal := admit.Check(pod, s.node); refusal != nil {
		return noderesources.Rejected(&status.Cause{Reason: refusal.Reason, Message: refusal.Message})
	}
	if notice := admit.SELinuxIgnored(pod, s.node); notice != nil {
		s.events.Event(pod, v1.EventTypeWarning, notice.Reason, notice.Message)
	}
	if cause := nameConflict(pod, all); cause != nil {
		block := &noderesources.Refusal{Cause: cause,
			Result: podworkers.SyncResult{Held: true, After: podworkers.Jitter(podworkers.ErrorBackoff)}}
		if cause.Reason == podworkers.ReasonNameTaken {
			block.Event = noderesources.EachTime
		}
		return block
	}
	if message, ready := s.runtime.NetworkReady(); !ready && !pod.Spec.HostNetwork {
		return &noderesources.Refusal{
			Cause:  &status.Cause{Reason: reasonNetworkNotReady, Message: "network is not ready: " + message},
			Event:  noderesources.EachTime,
			Result: podworkers.SyncResult{Err: errNetworkNotReady, After: podworkers.Jitter(networkBackoff)},
		}
	}
	if cause := s.inputs.AwaitedNetwork(pod); cause != nil {
		return &noderesources.Refusal{Cause: cause, KeepsPlace: true,
			Result: podworkers.SyncResult{Held: true, After: bootNetworkPoll}}
	}
	if cause := s.inputs.MissingHostIP(pod); cause != nil {
		return &noderesources.Refusal{Cause: cause, Event: noderesources.EachTime, Result: podworkers.SyncResult{Held: true}}
	}
	if cause := s.registry.closedGate(pod); cause != nil {
		return noderesources.Rejected(cause)
	}
	return nil
}

// reject ends a pod that did not pass admission: it is Failed. A pod that was
// admitted before and lost its sandbox is not rejected, it waits.
func (a *syncAttempt) reject(cause *status.Cause) *podworkers.SyncResult {
	a.events.Event(a.pod, v1.EventTypeWarning, cause.Reason, cause.Message)
	a.run.record.Rejected = len(a.observed.Containers) == 0
	a.publish(statusOverrides{rejected: cause})
	return a.ended()
}

// awaitObjects holds a pod until the API server has delivered all that the pod
// refers to, which notifies it; nil if nothing is awaited.
func (a *syncAttempt) awaitObjects() *noderesources.Refusal {
	if why := a.inputs.HeldObjects(a.pod); why != "" {
		return noderesources.Held(&status.Cause{Reason: reasonTooManyReferences, Message: why})
	}
	since := &a.run.hold.waitingForAPISince
	awaited := a.inputs.AwaitedObjects(a.pod)
	if len(awaited) == 0 {
		*since = time.Time{}
		return nil
	}
	if since.IsZero() {
		*since = time.Now()
	}
	if left := apiWaitGrace - time.Since(*since); left > 0 {
		return &noderesources.Refusal{Result: podworkers.SyncResult{Held: true, After: left}}
	}
	return &noderesources.Refusal{
		Cause: &status.Cause{Reason: reasonWaitingForAPI,
			Message: "waiting for the API server to report " + strings.Join(awaited, ", ")},
		Result: podworkers.SyncResult{Held: true},
	}
}

// unsupported returns why a pod asks for what this node cannot do, nil if it does
// not. Such a pod is held: if it failed, its controller would create the next one
// at once and forever. The pod of a manifest was checked when it was read.
func unsupported(pod *v1.Pod) *status.Cause {
	if !podinfo.PolicyOf(pod).CheckUnsupported {
		return nil
	}
	errs := validation.UnsupportedBound(pod)
	if len(errs) == 0 {
		return nil
	}
	message := errs[0].Error()
	if more := len(errs) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return &status.Cause{Reason: reasonUnsupported, Message: message}
}

// unsupportedEphemeral returns, by name, the ephemeral containers that ask for what
// this version cannot do: they came after the pod was checked, and do not end it.
func unsupportedEphemeral(pod *v1.Pod) map[string]cri.Waiting {
	if len(pod.Spec.EphemeralContainers) == 0 {
		return nil
	}
	why := map[string]cri.Waiting{}
	for _, err := range validation.UnsupportedBound(pod) {
		for i := range pod.Spec.EphemeralContainers {
			if strings.HasPrefix(err.Field, fmt.Sprintf("spec.ephemeralContainers[%d].", i)) {
				why[pod.Spec.EphemeralContainers[i].Name] = cri.Waiting{Reason: reasonUnsupported, Message: err.Error()}
			}
		}
	}
	return why
}

// nameConflict returns why a pod must wait for another pod of its full name, nil if
// there is none that runs: a pod of a stopped kubelet or of another daemon, or an
// orphan of this daemon that may not be terminated yet. Two of them could share a
// data directory.
func nameConflict(pod *v1.Pod, all *cri.Observed) *status.Cause {
	for _, other := range all.Own {
		if other.UID != pod.UID && other.Name == pod.Name && other.Namespace == pod.Namespace && other.Running() {
			return &status.Cause{Reason: reasonPredecessor, Message: fmt.Sprintf(
				"an earlier revision of the pod (UID %s) is still running; this one starts when it has terminated", other.UID)}
		}
	}
	for _, other := range all.Foreign {
		if other.Name == pod.Name && other.Namespace == pod.Namespace && other.Running() {
			return &status.Cause{Reason: podworkers.ReasonNameTaken, Message: fmt.Sprintf(
				"pod %s is already running and does not belong to this podstead (UID %s); stop the program that manages it, then "+
					"run: %s",
				other.FullName(), other.UID, stopCommand(other))}
		}
	}
	return nil
}

// stopCommand returns the command that stops a pod of another client.
func stopCommand(pod *cri.Pod) string {
	if ids := readySandboxIDs(pod); ids != "" {
		return "crictl stopp" + ids
	}
	command := "crictl stop"
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.State == cri.StateRunning || c.State == cri.StateUnknown {
			command += " " + c.ID
		}
	}
	return command
}

// readySandboxIDs returns the IDs of the ready sandboxes, each after a space.
func readySandboxIDs(pod *cri.Pod) string {
	ids := ""
	for _, sandbox := range pod.Sandboxes {
		if sandbox.Ready {
			ids += " " + sandbox.ID
		}
	}
	return ids
}
