package supervisor

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/podorder"
	"github.com/podstead/podstead/supervisor/podstart"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// newOrder returns the order in which static pods start and end.
func (s *Supervisor) newOrder() *podorder.Order {
	return podorder.New(podorder.Config{
		Node:   s.cfg.Node.Name,
		Status: s.cfg.Store.Statuses.Current,
		Runs:   func(uid types.UID) bool { return s.workers.State(uid) == podworkers.Syncing },
		Complete: func() bool {
			return s.desired.AllReady(s.cfg.Sources.Pods.Sources())
		},
		Terminating: s.workers.Terminating,
		Notify:      s.workers.Notify,

		NotifyPreviews: s.cfg.Sources.Rollouts.RetryPreparations,
	})
}

// startOrder applies the order of pods to their syncs.
type startOrder struct {
	*podorder.Order
	shutdown *hostShutdown
	events   Recorder
}

// startBlock blocks a static pod until the pods that it depends on are Ready. It gives
// its place among those that wait for resources to them. The annotation of a pod of an
// API server has no effect: its cluster schedules the pods that it depends on elsewhere.
func (o startOrder) startBlock(pod *v1.Pod) *noderesources.Refusal {
	if !podinfo.PolicyOf(pod).Static {
		if _, ok := pod.Annotations[podinfo.AnnotationDependsOn]; ok {
			o.events.Event(pod, v1.EventTypeWarning, podorder.ReasonIgnored,
				"annotation "+podinfo.AnnotationDependsOn+
					" has no effect on a pod of an API server; wait in an init container instead")
		}
		return nil
	}
	wait := o.StartBlock(pod)
	if wait == nil {
		return nil
	}
	block := noderesources.Held(&wait.Cause)
	block.Result = podworkers.SyncResult{Parked: true}
	if !wait.Faulty {
		block.Notice = wait.Event
	}
	return block
}

// endBlock returns the pods that have to terminate before this one is stopped, and when
// to ask again. The order holds for pods that are removed or whose host shuts down: one
// that the node needs to end at once, or that ends alone, waits for none. At a shutdown
// the pod keeps the grace period that it would have without the order.
func (o startOrder) endBlock(a *attempt) (names []string, again time.Time) {
	kill := a.job.Kill
	switch {
	case kill == nil || !a.policy.Static || a.run.kill.done:
		return nil, time.Time{}
	case kill.Reason == podworkers.KillRemoved, kill.Reason == podworkers.KillOrphan:
	case kill.Disruption != nil && kill.Disruption.Reason == podstart.ReasonTerminated:
	default:
		return nil, time.Time{}
	}
	latest := o.shutdown.deadline(a.pod.UID)
	if !latest.IsZero() {
		latest = latest.Add(-time.Duration(a.job.Grace) * time.Second)
	}
	return o.EndBlock(a.pod, latest)
}
