package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// resizeCondition returns the condition of a resize that is not made, with the
// kubelet's types and reasons; nil without one.
func resizeCondition(r *Resize) *v1.PodCondition {
	switch {
	case r == nil:
		return nil
	case r.Infeasible:
		return &v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonInfeasible, Message: r.Message}
	case r.Deferred:
		return &v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonDeferred, Message: r.Message}
	}
	return &v1.PodCondition{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue, Reason: v1.PodReasonError, Message: r.Message}
}

// setResources sets the resources of a running container. While a resize is pending
// they differ from the wanted ones.
func (b *builder) setResources(spec *v1.Container, c *cri.Container, s *v1.ContainerStatus) {
	if c == nil || c.State != cri.StateRunning || c.Resources == nil {
		return
	}
	has := *c.Resources
	if r, ok := b.in.Record.Resized[c.Name]; ok && r.ContainerID == c.ID {
		has = r.Resources
	}
	if len(has.Requests)+len(has.Limits) == 0 {
		return
	}
	now := has.ApplyTo(spec.Resources)
	now.Claims = nil
	s.Resources = &now
	s.AllocatedResources = now.Requests.DeepCopy()
}
