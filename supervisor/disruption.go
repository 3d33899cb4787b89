package supervisor

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// disruptions ends pods for the node's own sake, and restarts them when the policy
// for the reason allows.
type disruptions struct {
	registry *registry
	reports  reports
}

// terminal returns the phase that a disruption decides, nil without one. A pod that
// had ended by itself before keeps its phase.
func (s *disruptions) terminal(a *attempt) *status.Terminal {
	if a.job.Kill == nil || a.job.Kill.Disruption == nil || a.run.record.Terminal() {
		return nil
	}
	d := *a.job.Kill.Disruption
	a.run.record.Disruption = &d
	a.run.record.Rejected = a.policy.Rejects && len(a.observed.Containers) == 0
	s.reports.metrics.PodDisrupted(d.Reason, d.Signal)
	s.reports.events.Event(a.pod, v1.EventTypeWarning, d.Reason, d.Message)
	// A kubelet shows Succeeded instead if the containers end with code 0 (upstream's CriticalPod specs expect it), and
	// a Job counts the pod as done.
	return &status.Terminal{Phase: v1.PodFailed, Cause: status.Cause{Reason: d.Reason, Message: d.Message}}
}

// restart restarts a disrupted pod if its policy allows it now. The record shows
// which pods were disrupted: the daemon may have been restarted since.
func (s *disruptions) restart(a *attempt) (result podworkers.SyncResult) {
	if d := a.run.record.Disruption; d != nil && a.policy.Restarts {
		result.Restart, result.After = s.registry.mayRestart(a.pod, *d)
	}
	return result
}
