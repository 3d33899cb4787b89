package supervisor

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/rollout"
	"github.com/podstead/podstead/supervisor/status"
)

// Prepare implements rollout.Node for pods of manifests. Admission is judged before the
// images are pulled, so that nothing is pulled for a pod that cannot run; Recheck judges it
// again at the switch, since a pull may take minutes and reserves nothing.
func (s *Supervisor) Prepare(ctx context.Context, pod, replaced *v1.Pod, waiting func(status.Cause)) (*status.Cause,
	time.Duration) {
	if _, healthy := s.runtime.Healthy(); !healthy {
		return &status.Cause{}, 0 // the node reports it, and its return notifies
	}
	if cause, after := s.checkRevision(pod, replaced); cause != nil {
		return cause, after
	}
	why, after := s.cfg.Runtime.Syncer.PrepareImages(ctx, pod, s.podSyncer.inputs.PullCredentials(pod),
		func(w cri.Waiting) {
			waiting(status.Cause{Message: w.Message})
		})
	if ctx.Err() != nil {
		s.cfg.Runtime.Syncer.ForgetPrepared(pod.UID)
	}
	if why != nil {
		return &status.Cause{Reason: why.Reason, Message: why.Message}, after
	}
	return nil, 0
}

// Recheck implements rollout.Node.
func (s *Supervisor) Recheck(pod, replaced *v1.Pod) (*status.Cause, time.Duration) {
	return s.checkRevision(pod, replaced)
}

// ForgetPrepared implements rollout.Node.
func (s *Supervisor) ForgetPrepared(uid types.UID) { s.cfg.Runtime.Syncer.ForgetPrepared(uid) }

// RuntimeAway implements rollout.Node.
func (s *Supervisor) RuntimeAway() bool { return s.runtime.Away() }

// checkRevision judges a revision as if the pod that it replaces had ended. Most of what
// it may wait for also notifies.
func (s *Supervisor) checkRevision(pod, replaced *v1.Pod) (*status.Cause, time.Duration) {
	inputs := s.podSyncer.inputs
	if cause := inputs.Check(pod); cause != nil {
		return cause, 0
	}
	resolved := inputs.Resolve(pod).Pod
	if refusal := admit.Check(resolved, &s.cfg.Node); refusal != nil {
		return &status.Cause{Reason: refusal.Reason, Message: refusal.Message}, 0
	}
	if cause := inputs.MissingHostIP(resolved); cause != nil {
		return cause, 0
	}
	if cause := s.registry.closedGate(resolved); cause != nil {
		return cause, 0
	}
	if block := s.order.Preview(resolved); block != nil {
		return &status.Cause{Reason: block.Reason, Message: block.Message}, rollout.Notified
	}
	ended, first := s.podSyncer.reservations.Replacements()
	// A pod that is to restart takes nothing back if this revision replaces it.
	first = slices.DeleteFunc(first, func(p *v1.Pod) bool { return p.UID == replaced.UID })
	refusal := s.podSyncer.resources.Preview(&noderesources.Candidate{
		Pod: resolved, Replaced: replaced.UID, Ended: append(ended, replaced.UID), First: first,
	})
	if refusal == nil {
		return nil, 0
	}
	if refusal.Cause == nil {
		return &status.Cause{Message: refusal.Result.Err.Error()}, refusal.Result.After
	}
	return refusal.Cause, refusal.Result.After
}
