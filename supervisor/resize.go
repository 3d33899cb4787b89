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
	"github.com/podstead/podstead/supervisor/podworkers"
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

// beginResize looks for containers with other resources than wanted. It returns
// the pod as it is to be now, which is another one while there is no room for
// what is wanted, and the changes to make now in what runs. Before any is made
// it is written down: a daemon that ends half way leaves a later one in no doubt.
func (s *podSyncer) beginResize(pod *v1.Pod, observed *cri.PodStatus, r *runState) (*v1.Pod, []cri.Resize) {
	// What belongs to instances that are gone is history.
	r.record.Resized = maps.Clone(r.record.Resized)
	maps.DeleteFunc(r.record.Resized, func(name string, done status.ResizedRecord) bool {
		c := observed.Newest(name)
		return c == nil || c.ID != done.ContainerID || c.State != cri.StateRunning
	})
	actuated := map[string]cri.Actuated{}
	for _, done := range r.record.Resized {
		actuated[done.ContainerID] = done.Actuated
	}
	r.pendingResizes = cri.Resizes(pod, observed, actuated)
	has := r.allocated(pod, observed)
	if len(r.pendingResizes) == 0 && has == pod {
		r.resizeStatus = nil
		if sandboxReady(observed) {
			s.reservations.UpdateRunning(pod, pod, pod)
		}
		r.allocate(pod)
		return pod, nil
	}
	if !s.mayResize(has, pod, r) {
		r.pendingResizes = nil
		return has, nil
	}
	r.allocate(pod)
	if len(r.pendingResizes) == 0 {
		r.resizeStatus = nil
	} else if r.resizeStatus == nil {
		s.cfg.Events.Event(pod, v1.EventTypeNormal, reasonResizeStarted, "Pod resize started: "+resizeText(r.pendingResizes))
	}
	for _, change := range r.pendingResizes {
		if !change.Restart {
			r.noteResized(change, change.From, true)
		}
	}
	s.save(pod.UID, r)
	return pod, r.pendingResizes
}

// mayResize reports whether the node can give a pod the resources that it is to
// have, and tells if not. A resize that has to wait is tried again when there is
// room.
func (s *podSyncer) mayResize(has, pod *v1.Pod, r *runState) bool {
	if err := s.cfg.Runtime.Cgroups.Fits(pod); err != nil {
		s.reservations.UpdateRunning(has, has, has)
		s.reportResize(pod, r, &status.Resize{Infeasible: true, Message: err.Error()}, reasonResizeInfeasible)
		return false
	}
	v := s.reservations.UpdateRunning(has, pod, r.widest(pod))
	switch {
	case v.Denied == nil:
		return true
	case v.Unsatisfiable:
		s.reportResize(pod, r, &status.Resize{Infeasible: true, Message: v.Denied.Message}, reasonResizeInfeasible)
	case !v.Provisional:
		s.reportResize(pod, r, &status.Resize{Deferred: true, Message: v.Denied.Message}, reasonResizeDeferred)
	}
	return false
}

// noteResized writes down what a container has been given, or may have been.
func (r *runState) noteResized(change cri.Resize, to cri.Resources, uncertain bool) {
	if r.record.Resized == nil {
		r.record.Resized = map[string]status.ResizedRecord{}
	}
	r.record.Resized[change.Name] = status.ResizedRecord{ContainerID: change.ID, Actuated: cri.Actuated{Resources: to, Uncertain: uncertain}}
}

// endResize takes in what came of the changes that were to be made, and fits
// the pod's cgroup to what its containers have now.
func (s *podSyncer) endResize(ctx context.Context, j podworkers.SyncJob, r *runState, observed *cri.PodStatus, asked []cri.Resize, result *cri.SyncResult) error {
	if len(asked) == 0 {
		return nil
	}
	for _, change := range result.Resized {
		r.noteResized(change, change.To, false)
	}
	var left []cri.Resize
	var faults []string
	for _, change := range asked {
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
		s.reportResize(j.Pod, r, &status.Resize{Message: strings.Join(faults, "; ")}, reasonResizeError)
	case len(left) == 0 && result.Err == nil:
		r.resizeStatus = nil
		s.cfg.Events.Event(j.Pod, v1.EventTypeNormal, reasonResizeCompleted, "Pod resize completed: "+resizeText(asked))
	}
	r.pendingResizes = left
	_, err := s.cfg.Runtime.Cgroups.Ensure(ctx, r.widest(j.Pod), presentCgroup(observed))
	return err
}

// reportResize shows why a resize is not made, and tells of it once.
func (s *podSyncer) reportResize(pod *v1.Pod, r *runState, why *status.Resize, reason string) {
	if r.resizeStatus == nil || *r.resizeStatus != *why {
		s.cfg.Events.Event(pod, v1.EventTypeWarning, reason, why.Message)
	}
	r.resizeStatus = why
}

// widest is a pod with room for what its containers have and for what they
// are to have: its cgroup holds both while they change.
func (r *runState) widest(pod *v1.Pod) *v1.Pod {
	if len(r.pendingResizes) == 0 {
		return pod
	}
	pod = pod.DeepCopy()
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		for _, change := range r.pendingResizes {
			if change.Name == c.Name {
				c.Resources = change.From.Max(change.To).ApplyTo(c.Resources)
			}
		}
	}
	return pod
}

// allocated is a pod with what its containers have, those that run, and what
// the others have room for: they start with that. It is the pod itself if
// that is what it wants.
func (r *runState) allocated(pod *v1.Pod, observed *cri.PodStatus) *v1.Pod {
	other := map[string]cri.Resources{}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		newest := observed.Newest(c.Name)
		has, known := r.record.Allocated[c.Name]
		switch {
		case newest != nil && newest.State == cri.StateRunning:
			known = false
		case !known && newest != nil && newest.Resources != nil && sandboxReady(observed):
			// It was made by a version that did not write down the former.
			has, known = *newest.Resources, true
		}
		if known && !has.Equal(cri.ResourcesOf(&c.Resources)) {
			other[c.Name] = has
		}
	}
	for _, change := range r.pendingResizes {
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

// allocate notes that there is room for all that a pod wants.
func (r *runState) allocate(pod *v1.Pod) {
	all := map[string]cri.Resources{}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		all[c.Name] = cri.ResourcesOf(&c.Resources)
	}
	if !maps.EqualFunc(all, r.record.Allocated, cri.Resources.Equal) {
		r.record.Allocated = all
	}
}

// resizeText names the containers and what they get.
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
