package supervisor

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// admission reserves what pods request of the node, and preempts other pods for
// critical ones.
type admission struct {
	reservations *admit.Reservations
	assigned     NodeResources
	inputs       *podinputs.Resolver
	// disrupt ends a pod for the node's own sake.
	disrupt func(uid types.UID, d status.Disruption, grace *int64) error
	log     *slog.Logger
}

// reserve reserves what the pod requests, or returns why it has to wait.
func (a *syncAttempt) reserve() *startBlock {
	requests := a.run.resizes().Allocated(a.pod, a.observed)
	if requests != a.pod && !a.reservations.Holds(a.pod.UID) && !admit.ResourcesOf(requests).Within(admit.ResourcesOf(a.pod)) {
		// The pod waits, and requests less of a resource than it had.
		requests, a.run.record.Allocated = a.pod, nil
	}
	return a.admission.reserve(a.pod, requests, a.run.record.StartTime)
}

// reserve reserves what a pod requests. since is when the pod was first taken up,
// zero if now.
func (s *admission) reserve(pod, requests *v1.Pod, since time.Time) *startBlock {
	v := s.reservations.Reserve(requests, since)
	switch {
	case v.Denied == nil:
		return s.assign(requests)
	case v.Provisional:
		return &startBlock{result: podworkers.SyncResult{Parked: true}}
	}
	if len(v.Victims) > 0 {
		s.preempt(pod, v)
	}
	block := heldFor(&status.Cause{Reason: v.Denied.Reason, Message: v.Denied.Message})
	// A critical pod waits for the pods that it preempts.
	block.final = v.Unsatisfiable || !podinfo.IsCritical(pod)
	block.save = true
	block.result = podworkers.SyncResult{Parked: true}
	return block
}

// assign assigns CPUs and memory to a pod that has its resources reserved. A pod that has to
// wait for them holds nothing meanwhile.
func (s *admission) assign(pod *v1.Pod) *startBlock {
	err := s.assigned.Assign(pod)
	if err == nil {
		return nil
	}
	s.reservations.Release(pod.UID, false)
	var shortage Shortage
	if !errors.As(err, &shortage) {
		return &startBlock{result: podworkers.SyncResult{Err: err}}
	}
	return rejectedFor(&status.Cause{Reason: shortage.Reason(), Message: shortage.Error()})
}

// preempt ends pods, so that a critical pod can run.
func (s *admission) preempt(pod *v1.Pod, v admit.Decision) {
	for _, victim := range v.Victims {
		d := status.Disruption{Reason: admit.ReasonPreempting, Signal: admit.MissingResource(v.Denied.Reason), Message: fmt.Sprintf(
			"Preempted in order to admit critical pod %s (%s)", podinfo.FullName(pod), v.Denied.Reason)}
		if podinfo.PolicyOf(victim.Pod).Restarts {
			d.Message += "; this pod is restarted when the node has capacity"
		}
		if err := s.disrupt(victim.Pod.UID, d, nil); err != nil {
			// It is terminating already.
			s.log.Debug("Pod not preempted", "pod", podinfo.FullName(victim.Pod), "err", err)
			continue
		}
		s.log.Info("Preempting pod", "pod", podinfo.FullName(victim.Pod), "uid", victim.Pod.UID, "for", podinfo.FullName(pod), "reason", v.Denied.Reason)
	}
}

// canRestartPreempted is the RestartPolicy of preempted pods.
func (s *admission) canRestartPreempted(pod *v1.Pod, _ status.Disruption) (bool, time.Duration) {
	return s.reservations.Fits(s.inputs.Resolve(pod).Pod), 0
}
