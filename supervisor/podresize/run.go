package podresize

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/status"
)

// Run is the resize of one run of a pod. Its owner keeps both parts, and uses a Run in one
// goroutine at a time.
type Run struct {
	// Record outlives the daemon. A Run reads and writes what it has of allocated resources
	// and of the resize in progress.
	Record *status.Record
	*State
}

// State is what a run remembers of a resize that is not complete. The zero value is that of a
// new run.
type State struct {
	// pending are the changes of resources of what runs that are not made yet.
	pending []cri.Resize
	// denied is why the desired resources are not allocated, nil if they are, and
	// revision is the revision of the pod that was denied them.
	denied   *status.ResizeStep
	revision string
	// fault is why the last attempt failed, empty if it did not.
	fault string
}

// findResizes finds the changes that are to be made in what runs.
func (r Run) findResizes(pod *v1.Pod, observed *cri.PodStatus) {
	// Entries of instances that are gone are obsolete.
	r.Record.Resized = maps.Clone(r.Record.Resized)
	maps.DeleteFunc(r.Record.Resized, func(name string, done status.ResizedRecord) bool {
		c := observed.Newest(name)
		return c == nil || c.ID != done.ContainerID || c.State != cri.StateRunning
	})
	actuated := map[string]cri.Actuated{}
	for _, done := range r.Record.Resized {
		actuated[done.ContainerID] = done.Actuated
	}
	r.pending = cri.Resizes(pod, observed, actuated)
	r.forgetKept(observed)
}

// forgetKept forgets that an instance restarts for a resize if it runs and the resize
// was reverted before it was killed.
func (r Run) forgetKept(observed *cri.PodStatus) {
	if r.Record.Resizing == nil {
		return
	}
	resizing := *r.Record.Resizing
	resizing.Restarting = maps.Clone(resizing.Restarting)
	maps.DeleteFunc(resizing.Restarting, func(name, id string) bool {
		c := observed.Newest(name)
		return c != nil && c.ID == id && c.State == cri.StateRunning &&
			!slices.ContainsFunc(r.pending, func(change cri.Resize) bool { return change.ID == id && change.Restart })
	})
	r.Record.Resizing = &resizing
}

// complete reports whether a resize is in progress of which nothing is left to
// do: each container that had to restart for it has a successor that was started.
func (r Run) complete(observed *cri.PodStatus) bool {
	if r.Record.Resizing == nil || len(r.pending) > 0 {
		return false
	}
	for name, id := range r.Record.Resizing.Restarting {
		c := observed.Newest(name)
		if c == nil || c.ID == id || c.StartedAt.IsZero() {
			return false
		}
	}
	return true
}

// noteRestarting records that an instance restarts for a resize.
func (r Run) noteRestarting(change cri.Resize) {
	resizing := *r.Record.Resizing
	resizing.Restarting = maps.Clone(resizing.Restarting)
	if resizing.Restarting == nil {
		resizing.Restarting = map[string]string{}
	}
	resizing.Restarting[change.Name] = change.ID
	r.Record.Resizing = &resizing
}

// noteResized records the resources that a container was given, or may have been.
func (r Run) noteResized(change cri.Resize, to cri.Resources, uncertain bool) {
	if r.Record.Resized == nil {
		r.Record.Resized = map[string]status.ResizedRecord{}
	}
	r.Record.Resized[change.Name] = status.ResizedRecord{ContainerID: change.ID,
		Actuated: cri.Actuated{Resources: to, Uncertain: uncertain}}
}

// NoteCgroup records that the pod's cgroup has the resources of this pod, and reports
// whether it had others before.
func (r Run) NoteCgroup(pod *v1.Pod) (changed bool) {
	has, before := podResources(pod), r.Record.CgroupResources
	if before != nil && before.Equal(has) {
		return false
	}
	r.Record.CgroupResources = &has
	return before != nil
}

// Status returns what the status shows of a resize.
func (r Run) Status() status.Resize {
	shown := status.Resize{Pending: r.denied}
	if resizing := r.Record.Resizing; resizing != nil {
		shown.InProgress = &status.ResizeStep{Generation: resizing.Generation}
		if r.fault != "" {
			shown.InProgress.Cause = status.Cause{Reason: v1.PodReasonError, Message: r.fault}
		}
	}
	return shown
}
