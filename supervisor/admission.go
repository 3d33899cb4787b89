package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// reservationResource is the reservations in the list of what a pod needs of its node. It preempts other
// pods for critical ones.
type reservationResource struct {
	reservations *admit.Reservations
	inputs       *podinputs.Resolver
	// disrupt ends a pod for the node's own sake.
	disrupt func(uid types.UID, d status.Disruption, grace *int64) error
	log     *slog.Logger
}

// requests returns the pod with the resources to reserve for it.
func (a *syncAttempt) requests() *v1.Pod {
	requests := a.run.resizes().Allocated(a.pod, a.observed)
	if requests != a.pod && !a.reservations.Holds(a.pod.UID) &&
		!admit.ResourcesOf(requests).Within(admit.ResourcesOf(a.pod)) {
		// The pod waits, and requests less of a resource than it had.
		requests, a.run.record.Allocated = a.pod, nil
	}
	return requests
}

// Name implements noderesources.Resource.
func (*reservationResource) Name() string { return "reservations" }

// Preview implements noderesources.Resource.
func (r *reservationResource) Preview(c *noderesources.Candidate) *noderesources.Refusal {
	switch d := r.reservations.Preview(c.Pod, c.Replaced); {
	case d.Provisional:
		// Not all pods have decided after a start of the daemon.
		return &noderesources.Refusal{Cause: &status.Cause{}, Result: podworkers.SyncResult{After: time.Second}}
	case d.Denied != nil:
		return noderesources.Held(&status.Cause{Reason: d.Denied.Reason, Message: d.Denied.Message})
	}
	return nil
}

// Reserve implements noderesources.Reserver.
func (r *reservationResource) Reserve(s *noderesources.Start) *noderesources.Refusal {
	v := r.reservations.Reserve(s.Requests, s.Since)
	switch {
	case v.Denied == nil:
		return nil
	case v.Provisional:
		return &noderesources.Refusal{Result: podworkers.SyncResult{Parked: true}}
	}
	if len(v.Victims) > 0 {
		r.preempt(s.Pod, v)
	}
	refusal := noderesources.Held(&status.Cause{Reason: v.Denied.Reason, Message: v.Denied.Message})
	// A critical pod waits for the pods that it preempts.
	refusal.Final = v.Unsatisfiable || !podinfo.IsCritical(s.Pod)
	refusal.Save = true
	refusal.Result = podworkers.SyncResult{Parked: true}
	return refusal
}

// Withdraw implements noderesources.Reserver.
func (r *reservationResource) Withdraw(uid types.UID) { r.reservations.Withdraw(uid) }

// Release implements noderesources.Releaser.
func (r *reservationResource) Release(_ context.Context, uid types.UID, restarts bool) error {
	r.reservations.Release(uid, restarts)
	return nil
}

// Forget implements noderesources.Forgetter.
func (r *reservationResource) Forget(_ context.Context, uid types.UID) error {
	r.reservations.Forget(uid)
	return nil
}

// preempt ends pods, so that a critical pod can run.
func (r *reservationResource) preempt(pod *v1.Pod, v admit.Decision) {
	for _, victim := range v.Victims {
		d := status.Disruption{Reason: admit.ReasonPreempting, Signal: admit.MissingResource(v.Denied.Reason),
			Message: fmt.Sprintf(
				"Preempted in order to admit critical pod %s (%s)", podinfo.FullName(pod), v.Denied.Reason)}
		if podinfo.PolicyOf(victim.Pod).Restarts {
			d.Message += "; this pod is restarted when the node has capacity"
		}
		if err := r.disrupt(victim.Pod.UID, d, nil); err != nil {
			// It is terminating already.
			r.log.Debug("Pod not preempted", "pod", podinfo.FullName(victim.Pod), "err", err)
			continue
		}
		r.log.Info("Preempting pod", "pod", podinfo.FullName(victim.Pod), "uid", victim.Pod.UID, "for", podinfo.FullName(pod),
			"reason", v.Denied.Reason)
	}
}

// canRestartPreempted is the RestartPolicy of preempted pods.
func (r *reservationResource) canRestartPreempted(pod *v1.Pod, _ status.Disruption) (bool, time.Duration) {
	return r.reservations.Fits(r.inputs.Resolve(pod).Pod), 0
}
