package supervisor

import (
	"context"
	"fmt"
	"maps"
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

// resizer changes the resources of running containers, as far as the node has the
// capacity.
type resizer struct {
	cgroups      Cgroups
	cpus         CPUs
	reservations *admit.Reservations
	records      *runRecords
	events       Recorder
}

// begin finds the containers whose resources differ from the wanted ones. It returns
// the pod as it is to be now, which has other resources while the node lacks
// capacity for the wanted ones, and the changes to make now in what runs. They are
// saved before any is made, so that a daemon that is killed halfway leaves the next
// one in no doubt.
func (s *resizer) begin(pod *v1.Pod, observed *cri.PodStatus, r *runState) (*v1.Pod, []cri.Resize) {
	r.findResizes(pod, observed)
	has := r.allocated(pod, observed)
	if len(r.resize.pending) == 0 && has == pod {
		r.resize.denied = nil
		if sandboxReady(observed) {
			s.reservations.UpdateRunning(pod, pod, pod)
		}
		r.allocate(pod)
		return pod, nil
	}
	if !s.allowed(has, pod, r) {
		// What an earlier resize has not changed stays as it is.
		r.resize.pending, r.resize.fault = nil, ""
		r.allocate(has)
		if r.record.Resizing != nil && len(r.record.Resizing.Restarting) == 0 {
			r.record.Resizing = nil
		}
		return has, nil
	}
	r.resize.denied = nil
	if changed := r.allocate(pod); changed || r.record.Resizing == nil {
		s.started(pod, r)
	}
	for _, change := range r.resize.pending {
		if change.Restart {
			r.noteRestarting(change)
		} else {
			r.noteResized(change, change.From, true)
		}
	}
	s.records.save(pod.UID, r)
	return pod, r.resize.pending
}

// findResizes finds the changes that are to be made in what runs.
func (r *runState) findResizes(pod *v1.Pod, observed *cri.PodStatus) {
	// Entries of instances that are gone are obsolete.
	r.record.Resized = maps.Clone(r.record.Resized)
	maps.DeleteFunc(r.record.Resized, func(name string, done status.ResizedRecord) bool {
		c := observed.Newest(name)
		return c == nil || c.ID != done.ContainerID || c.State != cri.StateRunning
	})
	actuated := map[string]cri.Actuated{}
	for _, done := range r.record.Resized {
		actuated[done.ContainerID] = done.Actuated
	}
	r.resize.pending = cri.Resizes(pod, observed, actuated)
	r.forgetKept(observed)
}

// forgetKept forgets that an instance restarts for a resize if it runs and the resize
// was reverted before it was killed.
func (r *runState) forgetKept(observed *cri.PodStatus) {
	if r.record.Resizing == nil {
		return
	}
	resizing := *r.record.Resizing
	resizing.Restarting = maps.Clone(resizing.Restarting)
	maps.DeleteFunc(resizing.Restarting, func(name, id string) bool {
		c := observed.Newest(name)
		return c != nil && c.ID == id && c.State == cri.StateRunning &&
			!slices.ContainsFunc(r.resize.pending, func(change cri.Resize) bool { return change.ID == id && change.Restart })
	})
	r.record.Resizing = &resizing
}

// allowed reports whether the node can give a pod the resources that it wants, and
// shows in the status if not. A deferred resize is tried again when there is
// capacity.
func (s *resizer) allowed(has, pod *v1.Pod, r *runState) bool {
	if err := s.cgroups.Fits(pod); err != nil {
		s.reservations.UpdateRunning(has, has, has)
		s.deny(pod, r, v1.PodReasonInfeasible, err.Error())
		return false
	}
	if s.cpus.Fixed(pod) && !sameCPU(has, pod) {
		s.reservations.UpdateRunning(has, has, has)
		s.deny(pod, r, v1.PodReasonInfeasible, "the cpu of a Guaranteed pod cannot be resized with cpuManagerPolicy static, because its containers may have exclusive CPUs; replace the pod")
		return false
	}
	v := s.reservations.UpdateRunning(has, pod, r.widest(pod))
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

// sameCPU reports whether the containers of two revisions of a pod have the same CPU.
func sameCPU(a, b *v1.Pod) bool {
	cpu := func(pod *v1.Pod) (list []int64) {
		for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
			list = append(list, c.Resources.Requests.Cpu().MilliValue(), c.Resources.Limits.Cpu().MilliValue())
		}
		return list
	}
	return slices.Equal(cpu(a), cpu(b))
}

// deny shows why the wanted resources are not allocated. It sends one event for each
// revision and reason: the message changes with what other pods use.
func (s *resizer) deny(pod *v1.Pod, r *runState, reason, message string) {
	revision := fmt.Sprintf("%d %s", pod.Generation, pod.Annotations[podinfo.AnnotationHash])
	if r.resize.denied == nil || r.resize.denied.Reason != reason || r.resize.revision != revision {
		event := reasonResizeDeferred
		if reason == v1.PodReasonInfeasible {
			event = reasonResizeInfeasible
		}
		s.events.Event(pod, v1.EventTypeWarning, event, message)
	}
	r.resize.denied = &status.ResizeStep{Cause: status.Cause{Reason: reason, Message: message}, Generation: pod.Generation}
	r.resize.revision = revision
}

// started records that a resize is in progress from now on. Another one that is not
// complete goes on as part of it.
func (s *resizer) started(pod *v1.Pod, r *runState) {
	resizing := status.Resizing{Generation: pod.Generation}
	if r.record.Resizing != nil {
		resizing.Restarting = r.record.Resizing.Restarting
	}
	r.record.Resizing, r.resize.fault = &resizing, ""
	s.events.Event(pod, v1.EventTypeNormal, reasonResizeStarted, "Pod resize started: "+resizeText(pod))
}

// complete records the end of the resize in progress.
func (s *resizer) complete(pod *v1.Pod, r *runState) {
	r.record.Resizing, r.resize.fault = nil, ""
	s.events.Event(pod, v1.EventTypeNormal, reasonResizeCompleted, "Pod resize completed: "+resizeText(pod))
}

// resizeComplete reports whether a resize is in progress of which nothing is left to
// do: each container that had to restart for it has a successor that was started.
func (r *runState) resizeComplete(observed *cri.PodStatus) bool {
	if r.record.Resizing == nil || len(r.resize.pending) > 0 {
		return false
	}
	for name, id := range r.record.Resizing.Restarting {
		c := observed.Newest(name)
		if c == nil || c.ID == id || c.StartedAt.IsZero() {
			return false
		}
	}
	return true
}

// noteRestarting records that an instance restarts for a resize.
func (r *runState) noteRestarting(change cri.Resize) {
	resizing := *r.record.Resizing
	resizing.Restarting = maps.Clone(resizing.Restarting)
	if resizing.Restarting == nil {
		resizing.Restarting = map[string]string{}
	}
	resizing.Restarting[change.Name] = change.ID
	r.record.Resizing = &resizing
}

// noteResized records the resources that a container was given, or may have been.
func (r *runState) noteResized(change cri.Resize, to cri.Resources, uncertain bool) {
	if r.record.Resized == nil {
		r.record.Resized = map[string]status.ResizedRecord{}
	}
	r.record.Resized[change.Name] = status.ResizedRecord{ContainerID: change.ID, Actuated: cri.Actuated{Resources: to, Uncertain: uncertain}}
}

// end records the results of the requested changes, and updates the pod's cgroup to
// what its containers have now.
func (s *resizer) end(ctx context.Context, a *syncAttempt) error {
	r, requested, result := a.run, a.request.Resizes, &a.result
	if r.record.Resizing == nil {
		return nil
	}
	for _, change := range result.Resized {
		r.noteResized(change, change.To, false)
	}
	var left []cri.Resize
	var faults []string
	for _, change := range requested {
		fault, failed := result.ResizeErrors[change.Name]
		if failed {
			faults = append(faults, fault)
		}
		if failed || !change.Restart && !slices.ContainsFunc(result.Resized, func(d cri.Resize) bool { return d.ID == change.ID }) {
			left = append(left, change)
		}
	}
	r.resize.pending = left
	err := a.cgroupFault
	if len(requested) > 0 {
		wanted := r.widest(a.pod)
		if _, err = s.cgroups.Ensure(ctx, wanted, presentCgroup(a.observed)); err == nil {
			r.noteCgroup(wanted)
		}
	}
	switch {
	case len(faults) > 0:
		s.fail(a.pod, r, strings.Join(faults, "; "))
	case ctx.Err() != nil:
	case err != nil:
		s.fail(a.pod, r, err.Error())
	case result.Err == nil && r.resizeComplete(a.observed):
		s.complete(a.pod, r)
	}
	return err
}

// noteCgroup records that the pod's cgroup has the resources of this pod, and reports
// whether it had others before.
func (r *runState) noteCgroup(pod *v1.Pod) (changed bool) {
	has, before := podResources(pod), r.record.CgroupResources
	if before != nil && before.Equal(has) {
		return false
	}
	r.record.CgroupResources = &has
	return before != nil
}

// fail shows why the resize in progress failed. It sends one event for each kind of
// failure: the memory in use differs at each attempt.
func (s *resizer) fail(pod *v1.Pod, r *runState, fault string) {
	if withoutDigits(r.resize.fault) != withoutDigits(fault) {
		s.events.Event(pod, v1.EventTypeWarning, reasonResizeError, fault)
	}
	r.resize.fault = fault
}

func withoutDigits(text string) string {
	return strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' {
			return -1
		}
		return c
	}, text)
}

// resizeStatus returns what the status shows of a resize.
func (r *runState) resizeStatus() status.Resize {
	shown := status.Resize{Pending: r.resize.denied}
	if resizing := r.record.Resizing; resizing != nil {
		shown.InProgress = &status.ResizeStep{Generation: resizing.Generation}
		if r.resize.fault != "" {
			shown.InProgress.Cause = status.Cause{Reason: v1.PodReasonError, Message: r.resize.fault}
		}
	}
	return shown
}

// resizeText lists the resources of a pod and its containers.
func resizeText(pod *v1.Pod) string {
	var parts []string
	if r := pod.Spec.Resources; r != nil {
		parts = append(parts, fmt.Sprintf("pod requests %s, limits %s", listText(r.Requests), listText(r.Limits)))
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		parts = append(parts, fmt.Sprintf("container %s requests %s, limits %s", c.Name, listText(c.Resources.Requests), listText(c.Resources.Limits)))
	}
	return strings.Join(parts, "; ")
}

func listText(list v1.ResourceList) string {
	var parts []string
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q, ok := list[name]; ok {
			parts = append(parts, fmt.Sprintf("%s=%s", name, q.String()))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ",")
}
