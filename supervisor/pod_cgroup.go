package supervisor

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// reasonFailedCgroup is the kubelet's, of the event for the same.
const reasonFailedCgroup = "FailedCreatePodContainer"

// ensureCgroup makes the pod's cgroup, or brings it up to the pod, and returns
// it for a new sandbox. A pod that runs goes on where it is, whatever fails
// here; one that does not run waits.
func (s *podSyncer) ensureCgroup(ctx context.Context, j podworkers.SyncJob, pod *v1.Pod, r *runState, observed *cri.PodStatus) (parent string, out *podworkers.SyncResult, err error) {
	parent, err = s.cfg.Runtime.Cgroups.Ensure(ctx, r.widest(pod), presentCgroup(observed))
	if err == nil {
		return parent, nil, nil
	}
	err = fmt.Errorf("the pod's cgroup: %w", err)
	if ctx.Err() == nil {
		s.cfg.Events.Event(j.Pod, v1.EventTypeWarning, reasonFailedCgroup, err.Error())
	}
	if sandboxReady(observed) {
		return parent, nil, err
	}
	s.publish(j, r, observed, statusOverrides{waitingFor: &status.Cause{Reason: reasonFailedCgroup, Message: err.Error()}})
	return "", &podworkers.SyncResult{Err: err, EventSent: true}, err
}

// presentCgroup is what the newest ready sandbox was made in, empty if there is
// none or if it was made without.
func presentCgroup(observed *cri.PodStatus) string {
	for i := range observed.Sandboxes {
		if observed.Sandboxes[i].Ready {
			return observed.Sandboxes[i].CgroupParent()
		}
	}
	return ""
}

// destroyCgroup ends what of a pod is left in its cgroup, whatever the runtime
// says of it, and removes that.
func (s *podSyncer) destroyCgroup(ctx context.Context, uid types.UID) error {
	parent := ""
	for _, pod := range s.cfg.Runtime.Observer.Observed().Own {
		if pod.UID == uid && len(pod.Sandboxes) > 0 {
			parent = pod.Sandboxes[0].CgroupParent()
		}
	}
	if err := s.cfg.Runtime.Cgroups.Destroy(ctx, uid, parent); err != nil {
		return fmt.Errorf("the pod's cgroup: %w", err)
	}
	return nil
}
