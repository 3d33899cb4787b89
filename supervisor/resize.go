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
	has := r.allocated(pod, observed)
	if len(r.resize.pending) == 0 && has == pod {
		r.resize.status = nil
		if sandboxReady(observed) {
			s.reservations.UpdateRunning(pod, pod, pod)
		}
		r.allocate(pod)
		return pod, nil
	}
	if !s.allowed(has, pod, r) {
		r.resize.pending = nil
		return has, nil
	}
	r.allocate(pod)
	if len(r.resize.pending) == 0 {
		r.resize.status = nil
	} else if r.resize.status == nil {
		s.events.Event(pod, v1.EventTypeNormal, reasonResizeStarted, "Pod resize started: "+resizeText(r.resize.pending))
	}
	for _, change := range r.resize.pending {
		if !change.Restart {
			r.noteResized(change, change.From, true)
		}
	}
	s.records.save(pod.UID, r)
	return pod, r.resize.pending
}

// allowed reports whether the node can give a pod the resources that it wants, and
// shows in the status if not. A deferred resize is tried again when there is
// capacity.
func (s *resizer) allowed(has, pod *v1.Pod, r *runState) bool {
	if err := s.cgroups.Fits(pod); err != nil {
		s.reservations.UpdateRunning(has, has, has)
		s.report(pod, r, &status.Resize{Infeasible: true, Message: err.Error()}, reasonResizeInfeasible)
		return false
	}
	v := s.reservations.UpdateRunning(has, pod, r.widest(pod))
	switch {
	case v.Denied == nil:
		return true
	case v.Unsatisfiable:
		s.report(pod, r, &status.Resize{Infeasible: true, Message: v.Denied.Message}, reasonResizeInfeasible)
	case !v.Provisional:
		s.report(pod, r, &status.Resize{Deferred: true, Message: v.Denied.Message}, reasonResizeDeferred)
	}
	return false
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
func (s *resizer) end(ctx context.Context, a *attempt, requested []cri.Resize, result *cri.SyncResult) error {
	r := a.run
	if len(requested) == 0 {
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
	switch {
	case len(faults) > 0:
		s.report(a.pod, r, &status.Resize{Message: strings.Join(faults, "; ")}, reasonResizeError)
	case len(left) == 0 && result.Err == nil:
		r.resize.status = nil
		s.events.Event(a.pod, v1.EventTypeNormal, reasonResizeCompleted, "Pod resize completed: "+resizeText(requested))
	}
	r.resize.pending = left
	_, err := s.cgroups.Ensure(ctx, r.widest(a.pod), presentCgroup(a.observed))
	return err
}

// report shows why a resize is not made, and sends one event.
func (s *resizer) report(pod *v1.Pod, r *runState, why *status.Resize, reason string) {
	if r.resize.status == nil || *r.resize.status != *why {
		s.events.Event(pod, v1.EventTypeWarning, reason, why.Message)
	}
	r.resize.status = why
}

// widest returns the pod with the larger of what its containers have and what they
// are to have: its cgroup allows both while they change.
func (r *runState) widest(pod *v1.Pod) *v1.Pod {
	if len(r.resize.pending) == 0 {
		return pod
	}
	pod = pod.DeepCopy()
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		for _, change := range r.resize.pending {
			if change.Name == c.Name {
				c.Resources = change.From.Max(change.To).ApplyTo(c.Resources)
			}
		}
	}
	return pod
}

// allocated returns the pod with the resources that its running containers have, and
// those for which the others were allocated: they start with these. It is the pod
// itself if they are the wanted ones.
func (r *runState) allocated(pod *v1.Pod, observed *cri.PodStatus) *v1.Pod {
	other := map[string]cri.Resources{}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		newest := observed.Newest(c.Name)
		has, known := r.record.Allocated[c.Name]
		switch {
		case newest != nil && newest.State == cri.StateRunning:
			known = false
		case !known && newest != nil && newest.Resources != nil && sandboxReady(observed):
			// It was created by a version that did not record the allocation.
			has, known = *newest.Resources, true
		}
		if known && !has.Equal(cri.ResourcesOf(&c.Resources)) {
			other[c.Name] = has
		}
	}
	for _, change := range r.resize.pending {
		other[change.Name] = change.From
	}
	if len(other) == 0 {
		return pod
	}
	pod = pod.DeepCopy()
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		if has, ok := other[c.Name]; ok {
			c.Resources = has.ApplyTo(c.Resources)
		}
	}
	return pod
}

// allocate records that the wanted resources are allocated.
func (r *runState) allocate(pod *v1.Pod) {
	all := map[string]cri.Resources{}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		all[c.Name] = cri.ResourcesOf(&c.Resources)
	}
	if !maps.EqualFunc(all, r.record.Allocated, cri.Resources.Equal) {
		r.record.Allocated = all
	}
}

// resizeText lists the containers with their new resources.
func resizeText(list []cri.Resize) string {
	parts := make([]string, 0, len(list))
	for _, change := range list {
		to := change.To.ApplyTo(v1.ResourceRequirements{})
		parts = append(parts, fmt.Sprintf("container %s requests %s, limits %s", change.Name, listText(to.Requests), listText(to.Limits)))
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
