package podresize

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/status"
)

// Reasons of events of a resize, the kubelet's.
const (
	reasonResizeStarted    = "ResizeStarted"
	reasonResizeCompleted  = "ResizeCompleted"
	reasonResizeInfeasible = "ResizeInfeasible"
	reasonResizeDeferred   = "ResizeDeferred"
	reasonResizeError      = "ResizeError"
)

// Resources are those of the node that take part in a resize. Implemented by noderesources.List.
type Resources interface {
	// CheckResize returns why the containers of a pod cannot get the resources of another revision of it
	// for good, nil if they can.
	CheckResize(has, wants *v1.Pod) error
	// Resize applies the resources of a pod that runs.
	Resize(ctx context.Context, pod *v1.Pod, observed *cri.PodStatus) error
}

// Recorder records events.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Resizer changes the resources of running containers, as far as the node has the
// capacity. All fields are required. It is safe for concurrent use.
type Resizer struct {
	Resources    Resources
	Reservations *admit.Reservations
	Events       Recorder
}

// Begin finds the containers whose resources differ from the desired ones. It returns
// the pod as it is to be now, which has other resources while the node lacks
// capacity for the desired ones, and the changes to make now in what runs. save, which
// saves the record, is called before any is made, so that a daemon that is killed halfway leaves
// the next one in no doubt.
func (s *Resizer) Begin(pod *v1.Pod, observed *cri.PodStatus, r Run, save func()) (*v1.Pod, []cri.Resize) {
	r.findResizes(pod, observed)
	has := r.Allocated(pod, observed)
	if len(r.pending) == 0 && has == pod {
		r.denied = nil
		if observed.HasReadySandbox() {
			s.Reservations.UpdateRunning(pod, pod, pod)
		}
		r.allocate(pod)
		return pod, nil
	}
	if !s.allowed(has, pod, r) {
		// What an earlier resize has not changed stays as it is.
		r.pending, r.fault = nil, ""
		r.allocate(has)
		if r.Record.Resizing != nil && len(r.Record.Resizing.Restarting) == 0 {
			r.Record.Resizing = nil
		}
		return has, nil
	}
	r.denied = nil
	if changed := r.allocate(pod); changed || r.Record.Resizing == nil {
		s.started(pod, r)
	}
	for _, change := range r.pending {
		if change.Restart {
			r.noteRestarting(change)
		} else {
			r.noteResized(change, change.From, true)
		}
	}
	save()
	return pod, r.pending
}

// allowed reports whether the node can give a pod the resources that it wants, and
// shows in the status if not. A deferred resize is tried again when there is
// capacity.
func (s *Resizer) allowed(has, pod *v1.Pod, r Run) bool {
	if err := s.Resources.CheckResize(has, pod); err != nil {
		s.Reservations.UpdateRunning(has, has, has)
		s.deny(pod, r, v1.PodReasonInfeasible, err.Error())
		return false
	}
	v := s.Reservations.UpdateRunning(has, pod, r.Widest(pod))
	switch {
	case v.Denied == nil:
		return true
	case v.Unsatisfiable:
		s.deny(pod, r, v1.PodReasonInfeasible, v.Denied.Message)
	case !v.Provisional:
		s.deny(pod, r, v1.PodReasonDeferred, v.Denied.Message)
	}
	return false
}

// deny shows why the desired resources are not allocated. It sends one event for each
// revision and reason: the message changes with what other pods use.
func (s *Resizer) deny(pod *v1.Pod, r Run, reason, message string) {
	revision := fmt.Sprintf("%d %s", pod.Generation, pod.Annotations[podinfo.AnnotationHash])
	if r.denied == nil || r.denied.Reason != reason || r.revision != revision {
		event := reasonResizeDeferred
		if reason == v1.PodReasonInfeasible {
			event = reasonResizeInfeasible
		}
		s.Events.Event(pod, v1.EventTypeWarning, event, message)
	}
	r.denied = &status.ResizeStep{Cause: status.Cause{Reason: reason, Message: message}, Generation: pod.Generation}
	r.revision = revision
}

// started records that a resize is in progress from now on. Another one that is not
// complete goes on as part of it.
func (s *Resizer) started(pod *v1.Pod, r Run) {
	resizing := status.Resizing{Generation: pod.Generation}
	if r.Record.Resizing != nil {
		resizing.Restarting = r.Record.Resizing.Restarting
	}
	r.Record.Resizing, r.fault = &resizing, ""
	s.Events.Event(pod, v1.EventTypeNormal, reasonResizeStarted, "Pod resize started: "+resizeText(pod))
}

// complete records the end of the resize in progress.
func (s *Resizer) complete(pod *v1.Pod, r Run) {
	r.Record.Resizing, r.fault = nil, ""
	if r.denied == nil {
		// What the containers had in addition is free for the pods that wait: a runtime may report no change after
		// which this pod is synced again.
		s.Reservations.UpdateRunning(pod, pod, pod)
	}
	s.Events.Event(pod, v1.EventTypeNormal, reasonResizeCompleted, "Pod resize completed: "+resizeText(pod))
}

// Executed is the execution of what Begin returned.
type Executed struct {
	// Pod is the pod as it is to be, Observed what was observed of it before.
	Pod      *v1.Pod
	Observed *cri.PodStatus
	// Requested are the requested changes, Result their result.
	Requested []cri.Resize
	Result    *cri.SyncResult
	// CgroupFault is why the pod's cgroup could not be prepared; nil if it could.
	CgroupFault error
}

// End records the results of the requested changes, and updates the pod's cgroup to
// what its containers have now. It returns why the cgroup could not be updated.
func (s *Resizer) End(ctx context.Context, r Run, e *Executed) error {
	if r.Record.Resizing == nil {
		return nil
	}
	for _, change := range e.Result.Resized {
		r.noteResized(change, change.To, false)
	}
	var left []cri.Resize
	var faults []string
	for _, change := range e.Requested {
		fault, failed := e.Result.ResizeErrors[change.Name]
		if failed {
			faults = append(faults, fault)
		}
		if failed || !change.Restart &&
			!slices.ContainsFunc(e.Result.Resized, func(d cri.Resize) bool { return d.ID == change.ID }) {
			left = append(left, change)
		}
	}
	r.pending = left
	err := e.CgroupFault
	if len(e.Requested) > 0 {
		desired := r.Widest(e.Pod)
		if err = s.Resources.Resize(ctx, desired, e.Observed); err == nil {
			r.NoteCgroup(desired)
		}
	}
	switch {
	case len(faults) > 0:
		s.fail(e.Pod, r, strings.Join(faults, "; "))
	case ctx.Err() != nil:
	case err != nil:
		s.fail(e.Pod, r, err.Error())
	case e.Result.Err == nil && r.complete(e.Observed):
		s.complete(e.Pod, r)
	}
	return err
}

// fail shows why the resize in progress failed. It sends one event for each kind of
// failure: the memory in use differs at each attempt.
func (s *Resizer) fail(pod *v1.Pod, r Run, fault string) {
	if withoutDigits(r.fault) != withoutDigits(fault) {
		s.Events.Event(pod, v1.EventTypeWarning, reasonResizeError, fault)
	}
	r.fault = fault
}
