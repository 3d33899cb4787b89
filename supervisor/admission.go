package supervisor

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// admitPod takes what a pod needs of the node, or says what to do without.
func (s *podSyncer) admit(j podworkers.SyncJob, r *runState, observed *cri.PodStatus) (podworkers.SyncResult, bool) {
	asks := r.allocated(j.Pod, observed)
	if asks != j.Pod && !s.reservations.Holds(j.Pod.UID) && !admit.ResourcesOf(asks).Within(admit.ResourcesOf(j.Pod)) {
		// It waits, and wants less of something than it had.
		asks, r.record.Allocated = j.Pod, nil
	}
	v := s.reservations.Reserve(asks, r.record.StartTime)
	switch {
	case v.Denied == nil:
		return podworkers.SyncResult{}, true
	case v.Provisional:
		return podworkers.SyncResult{Parked: true}, false
	}
	if len(v.Victims) > 0 {
		s.preempt(j.Pod, v)
	}
	cause := &status.Cause{Reason: v.Denied.Reason, Message: v.Denied.Message}
	if podinfo.IsAPI(j.Pod) && (v.Unsatisfiable || !podinfo.IsCritical(j.Pod)) {
		return s.reject(j, r, observed, cause), false
	}
	// A critical one of a cluster waits for those that end for it.
	out := s.hold(j, r, observed, cause)
	// Its place in the line outlives the daemon.
	s.save(j.Pod.UID, r)
	out.Held, out.Parked = false, true
	return out, false
}

// preempt ends pods, so that a critical one can run.
func (s *podSyncer) preempt(pod *v1.Pod, v admit.Decision) {
	for _, victim := range v.Victims {
		d := status.Disruption{Reason: admit.ReasonPreempting, Signal: admit.MissingResource(v.Denied.Reason), Message: fmt.Sprintf(
			"critical pod %s has %s", podinfo.FullName(pod), shortageText(v.Denied.Reason))}
		if !podinfo.IsAPI(victim.Pod) {
			d.Message += "; this one runs again when there is room"
		}
		if err := s.disrupt(victim.Pod.UID, d, nil); err != nil {
			// Then it ends already.
			s.cfg.Log.Debug("pod is not preempted", "pod", podinfo.FullName(victim.Pod), "error", err)
			continue
		}
		s.cfg.Log.Info("pod is preempted", "pod", podinfo.FullName(victim.Pod), "uid", victim.Pod.UID, "for", podinfo.FullName(pod), "reason", v.Denied.Reason)
	}
}

func shortageText(reason string) string {
	return "no room (" + reason + ")"
}

// mayReturn is the Return of pods that were preempted.
func (s *podSyncer) canRestartPreempted(pod *v1.Pod, _ status.Disruption) (bool, time.Duration) {
	return s.reservations.Fits(s.inputs.Resolve(pod).Pod), 0
}
