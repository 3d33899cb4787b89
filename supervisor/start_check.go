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

// startBlock is why a pod may not start now.
type startBlock struct {
	// cause is shown in the status; nil leaves the status as it is.
	cause *status.Cause
	// final: a pod whose policy is to be rejected is rejected. Others are held.
	final bool
	event eventRule
	// notice is the event's message if it is none of a fault; empty is a warning with
	// the message of the cause.
	notice string
	// keepsPlace: the pod keeps its place among those that wait for resources.
	keepsPlace bool
	// save: the record is saved, so that the place outlives the daemon.
	save   bool
	result podworkers.SyncResult
}

// eventRule is when an event is sent for a startBlock.
type eventRule uint8

const (
	noEvent eventRule = iota
	eachTime
	oncePerCause
)

// heldFor blocks a pod until the cause has passed. The kubelet fails such a pod for
// good. Here it waits for another manifest, or a daemon with other settings: it is
// synced again whenever a pod ends, and one event is sent.
func heldFor(cause *status.Cause) *startBlock {
	return &startBlock{cause: cause, event: oncePerCause, result: podworkers.SyncResult{Held: true}}
}

// rejectedFor blocks a pod that does not pass admission: a pod of the cluster is
// Failed, so that its controller creates another one elsewhere; a static pod waits.
func rejectedFor(cause *status.Cause) *startBlock {
	block := heldFor(cause)
	block.final = true
	return block
}

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
func (s *startChecker) check(pod *v1.Pod) *startBlock {
	all := s.observer.Observed()
	if all.At.IsZero() {
		// The first relist is in progress; without it nothing shows whether another
		// pod of this name runs.
		return &startBlock{keepsPlace: true, result: podworkers.SyncResult{Held: true, After: runtimehealth.BackoffMin}}
	}
	if cause := unsupported(pod); cause != nil {
		return heldFor(cause)
	}
	if refusal := admit.Check(pod, s.node); refusal != nil {
		return rejectedFor(&status.Cause{Reason: refusal.Reason, Message: refusal.Message})
	}
	if notice := admit.SELinuxIgnored(pod, s.node); notice != nil {
		s.events.Event(pod, v1.EventTypeWarning, notice.Reason, notice.Message)
	}
	if cause := nameConflict(pod, all); cause != nil {
		block := &startBlock{cause: cause, result: podworkers.SyncResult{Held: true, After: podworkers.Jitter(podworkers.ErrorBackoff)}}
		if cause.Reason == podworkers.ReasonNameTaken {
			block.event = eachTime
		}
		return block
	}
	if message, ready := s.runtime.NetworkReady(); !ready && !pod.Spec.HostNetwork {
		return &startBlock{
			cause: &status.Cause{Reason: reasonNetworkNotReady, Message: "network is not ready: " + message}, event: eachTime,
			result: podworkers.SyncResult{Err: errNetworkNotReady, After: podworkers.Jitter(networkBackoff)},
		}
	}
	if cause := s.inputs.AwaitedNetwork(pod); cause != nil {
		return &startBlock{cause: cause, keepsPlace: true, result: podworkers.SyncResult{Held: true, After: bootNetworkPoll}}
	}
	if cause := s.inputs.MissingHostIP(pod); cause != nil {
		return &startBlock{cause: cause, event: eachTime, result: podworkers.SyncResult{Held: true}}
	}
	if cause := s.registry.closedGate(pod); cause != nil {
		return rejectedFor(cause)
	}
	return nil
}

// applyBlock shows in the pod's status and in an event why it does not start.
func (a *syncAttempt) applyBlock(block *startBlock) *podworkers.SyncResult {
	cause := block.cause
	if cause == nil {
		return &block.result
	}
	if block.final && a.policy.Rejects && !a.reservations.Holds(a.pod.UID) {
		return a.reject(cause)
	}
	a.run.hold.shown = cause
	a.publish(statusOverrides{waitingFor: cause})
	eventType, reported := v1.EventTypeWarning, *cause
	if block.notice != "" {
		eventType, reported.Message = v1.EventTypeNormal, block.notice
	}
	if block.event == eachTime || block.event == oncePerCause && a.run.hold.last != reported {
		a.events.Event(a.pod, eventType, reported.Reason, reported.Message)
	}
	if block.event == oncePerCause {
		a.run.hold.last = reported
	}
	if block.save {
		a.save()
	}
	return &block.result
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
func (a *syncAttempt) awaitObjects() *startBlock {
	if why := a.inputs.HeldObjects(a.pod); why != "" {
		return heldFor(&status.Cause{Reason: reasonTooManyReferences, Message: why})
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
		return &startBlock{result: podworkers.SyncResult{Held: true, After: left}}
	}
	return &startBlock{
		cause:  &status.Cause{Reason: reasonWaitingForAPI, Message: "waiting for the API server to report " + strings.Join(awaited, ", ")},
		result: podworkers.SyncResult{Held: true},
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
				"pod %s is already running and does not belong to this podstead (UID %s); stop the program that manages it, then run: %s",
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
