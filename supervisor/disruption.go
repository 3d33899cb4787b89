package supervisor

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// Ended reports whether everything of a pod has ended: nothing of it runs, its
// volumes are unmounted and its cgroup is removed. It is false for a pod that is
// unknown or waits to run.
func (s *Supervisor) Ended(uid types.UID) bool { return s.workers.State(uid) == podworkers.Finished }

// Disrupt ends the run of a pod for the node's own sake, within grace seconds or the
// pod's own grace period if that is nil. The pod is Failed with the reason and the
// message, and has the condition DisruptionTarget, until a RestartPolicy lets it run
// again. The record of the pod holds the disruption: a restart of the daemon neither
// loses the pod nor runs it at once. An API pod does not run again. Disrupt does not
// wait; WaitEnded does.
func (s *Supervisor) Disrupt(uid types.UID, d status.Disruption, grace *int64) error {
	return s.workers.Disrupt(uid, d, grace)
}

// WaitEnded waits until the present run of a pod has ended: nothing of it runs,
// its volumes are unmounted and its cgroup is removed. It returns nil at once for a
// pod that does not run, and the context's error if the context ends first.
func (s *Supervisor) WaitEnded(ctx context.Context, uid types.UID) error {
	select {
	case <-s.workers.Ended(uid):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RetryDisrupted asks the restart policies again about each disrupted pod.
func (s *Supervisor) RetryDisrupted() { s.workers.RetryDisrupted() }

// RetryHeld asks the gates again about each pod that is held.
func (s *Supervisor) RetryHeld() { s.workers.RetryHeld() }

// disruptedEnd records the disruption that ends a pod and returns its terminal status,
// nil without one. A pod that had ended by itself before keeps that end.
func (s *podSyncer) disruptedEnd(j podworkers.SyncJob, r *runState, observed *cri.PodStatus) *status.Terminal {
	if j.Kill == nil || j.Kill.Disruption == nil || r.record.Terminal() {
		return nil
	}
	d := *j.Kill.Disruption
	r.record.Disruption = &d
	r.record.Rejected = podinfo.IsAPI(j.Pod) && len(observed.Containers) == 0
	s.cfg.Metrics.PodDisrupted(d.Reason, d.Signal)
	s.cfg.Events.Event(j.Pod, v1.EventTypeWarning, d.Reason, d.Message)
	return &status.Terminal{Phase: v1.PodFailed, Cause: status.Cause{Reason: d.Reason, Message: d.Message}}
}

// orRestart lets a disrupted pod run again if its time has come. The record says
// which pods are: the daemon may have been restarted since.
func (s *podSyncer) orRestart(result podworkers.SyncResult, j podworkers.SyncJob, r *runState) podworkers.SyncResult {
	d := r.record.Disruption
	if result.Err != nil || d == nil || podinfo.IsAPI(j.Pod) {
		return result
	}
	result.Restart, result.After = s.registry.mayRestart(j.Pod, *d)
	return result
}
