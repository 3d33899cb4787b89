package cgroups

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/podstart"
	"github.com/podstead/podstead/supervisor/status"
)

// Manager creates and removes the cgroups of pods. Implemented by cgroup.Cgroups.
type Manager interface {
	// Ensure creates a pod's cgroup, or updates it to the pod, and returns it in
	// the form for a new sandbox, empty if pods have no cgroups here. parent is the
	// cgroup of the present sandbox, empty if there is none.
	Ensure(ctx context.Context, pod *v1.Pod, parent string) (string, error)
	// Fits returns an error for a pod that requests more than the node has.
	Fits(pod *v1.Pod) error
	// Destroy kills the processes that are left in the cgroup and removes it.
	Destroy(ctx context.Context, uid types.UID, parent string) error
	// Pods returns the pods that have a cgroup.
	Pods() []types.UID
}

// lateCgroups is how long after a pod's end the runtime may create its cgroup again:
// a little more than the longest deadline of a call that does so.
const lateCgroups = 5 * time.Minute

// Resource is the cgroups of pods.
type Resource struct {
	manager Manager
	// observed returns the last list of the runtime.
	observed func() *cri.Observed

	// ended are the pods that were released in the last lateCgroups. Only those are looked for
	// while the daemon runs: the cgroup of any other pod without a sandbox may be that of another
	// daemon with the same root, which is about to start it.
	mu    sync.Mutex
	ended map[types.UID]time.Time
}

// New returns the cgroups that a manager makes. observed returns the last list of the runtime.
func New(m Manager, observed func() *cri.Observed) *Resource {
	return &Resource{manager: m, observed: observed, ended: map[types.UID]time.Time{}}
}

// Name implements noderesources.Resource.
func (*Resource) Name() string { return "cgroup" }

// Preview implements noderesources.Resource.
func (r *Resource) Preview(c *noderesources.Candidate) *noderesources.Refusal {
	if err := r.manager.Fits(c.Pod); err != nil {
		return noderesources.Held(&status.Cause{Reason: podstart.ReasonFailedCgroup, Message: err.Error()})
	}
	return nil
}

// Prepare implements noderesources.Preparer. What runs stays in the cgroup that it has.
func (r *Resource) Prepare(ctx context.Context, s *noderesources.Start) *noderesources.Refusal {
	parent, err := r.manager.Ensure(ctx, s.Limits, s.Observed.CgroupParent())
	s.Sandbox.CgroupParent = parent
	if err == nil {
		s.LimitsApplied = true
		return nil
	}
	s.LimitsFault = fmt.Errorf("unable to ensure pod container exists: %w", err)
	refused := noderesources.Failed(podstart.ReasonFailedCgroup, s.LimitsFault)
	if ctx.Err() != nil {
		refused.Event = noderesources.NoEvent
	}
	return refused
}

// Unprepare implements noderesources.Unpreparer: it kills what is left in a pod's cgroup, whatever the
// runtime reports of the pod, and removes the cgroup. A process in it would be a part of the pod that
// has not stopped, and may use a volume.
func (r *Resource) Unprepare(ctx context.Context, uid types.UID) error {
	parent := ""
	for _, pod := range r.observed().Own {
		if pod.UID == uid && len(pod.Sandboxes) > 0 {
			parent = pod.Sandboxes[0].CgroupParent()
		}
	}
	if err := r.manager.Destroy(ctx, uid, parent); err != nil {
		return fmt.Errorf("pod cgroup: %w", err)
	}
	return nil
}

// Release implements noderesources.Releaser.
func (r *Resource) Release(_ context.Context, uid types.UID, _ bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[uid] = time.Now()
	return nil
}

// CheckResize implements noderesources.Resizer.
func (r *Resource) CheckResize(_, wants *v1.Pod) error { return r.manager.Fits(wants) }

// Resize implements noderesources.Resizer.
func (r *Resource) Resize(ctx context.Context, pod *v1.Pod, observed *cri.PodStatus) error {
	_, err := r.manager.Ensure(ctx, pod, observed.CgroupParent())
	return err
}

// Found implements noderesources.Finder.
func (r *Resource) Found() []types.UID { return r.manager.Pods() }

// Reappeared implements noderesources.Finder.
func (r *Resource) Reappeared() (uids []types.UID, again bool) {
	recent := r.recent(time.Now())
	if len(recent) == 0 {
		return nil, false
	}
	return slices.DeleteFunc(r.manager.Pods(), func(uid types.UID) bool { return !recent[uid] }), true
}

// recent returns the pods that ended in the last lateCgroups, and forgets older ones.
func (r *Resource) recent(now time.Time) map[types.UID]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	recent := map[types.UID]bool{}
	for uid, at := range r.ended {
		if now.Sub(at) > lateCgroups {
			delete(r.ended, uid)
			continue
		}
		recent[uid] = true
	}
	return recent
}
