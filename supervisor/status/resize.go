package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// Resizing is the record of a resize that was allocated and is not complete.
type Resizing struct {
	// Generation is that of the pod that wants it, 0 if it has none.
	Generation int64 `json:"generation,omitempty"`
	// Restarting has, by container name, the instance that ends because its
	// resizePolicy requires a restart. The resize is not complete before its
	// successor has started.
	Restarting map[string]string `json:"restarting,omitempty"`
}

// restartsKilled reports whether the newest instance of a container was killed to be
// restarted and has no successor yet: it starts again whatever its exit code was.
func (in *Input) restartsKilled(name string) bool {
	if in.Observed == nil {
		return false
	}
	newest := in.Observed.Newest(name)
	return newest != nil && newest.ID == in.Record.Restarting(in.Observed)[name]
}

// resizeConditions returns the conditions of a resize that is not made, with the
// kubelet's types, reasons and order. A pod that has ended has none.
func resizeConditions(in Input, st *v1.PodStatus) (list []v1.PodCondition) {
	if podinfo.IsTerminal(st.Phase) {
		return nil
	}
	for _, c := range []struct {
		kind v1.PodConditionType
		step *ResizeStep
	}{{v1.PodResizePending, in.Resize.Pending}, {v1.PodResizeInProgress, in.Resize.InProgress}} {
		if c.step != nil {
			list = append(list, v1.PodCondition{
				Type: c.kind, Status: v1.ConditionTrue,
				Reason: c.step.Reason, Message: c.step.Message, ObservedGeneration: c.step.Generation,
			})
		}
	}
	return list
}

// setResources sets the resources of a container that exists or has existed: those that
// are allocated to it, and those that it has, which differ while a resize is in
// progress. One that does not run has what it is started with.
func (b *builder) setResources(spec *v1.Container, c *cri.Container, s *v1.ContainerStatus) {
	if c == nil && s.ContainerID == "" {
		return
	}
	runs := c != nil && c.State == cri.StateRunning
	allocated, known := b.in.Record.Allocated[spec.Name]
	switch {
	case known:
	case runs && c.Resources != nil:
		allocated = *c.Resources
	default:
		allocated = cri.ResourcesOf(&spec.Resources)
	}
	has := allocated
	if runs && c.Resources != nil {
		has = *c.Resources
		if r, ok := b.in.Record.Resized[c.Name]; ok && r.ContainerID == c.ID {
			has = r.Resources
		}
	}
	now := has.ApplyTo(spec.Resources)
	now.Claims = nil
	s.Resources = &now
	s.AllocatedResources = allocated.ApplyTo(spec.Resources).Requests
}

// setPodResources sets the resources of a pod as a whole: those that are allocated to it, and
// those that its cgroup has, which differ while a resize is in progress or failed. A request
// that only the containers have is their sum. A kubelet sets both also for a pod without
// spec.resources, from the sums of its containers.
func setPodResources(in Input, st *v1.PodStatus) {
	if in.Pod.Spec.Resources == nil || in.Rejected != nil {
		return
	}
	allocated := *in.Pod
	allocated.Spec = *in.Pod.Spec.DeepCopy()
	if whole, ok := in.Record.Allocated[""]; ok {
		*allocated.Spec.Resources = whole.ApplyTo(*allocated.Spec.Resources)
	}
	for c := range podinfo.EachContainer(&allocated.Spec, podinfo.SpecContainers) {
		if own, ok := in.Record.Allocated[c.Name]; ok {
			c.Resources = own.ApplyTo(c.Resources)
		}
	}
	st.AllocatedResources = podinfo.Requests(&allocated)
	now := *allocated.Spec.Resources.DeepCopy()
	if has := in.Record.CgroupResources; has != nil && st.Phase == v1.PodRunning && in.Observed.HasReadySandbox() {
		now = has.ApplyTo(now)
	}
	now.Claims = nil
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		q, sum := st.AllocatedResources[name]
		if _, ok := now.Requests[name]; sum && !ok {
			if now.Requests == nil {
				now.Requests = v1.ResourceList{}
			}
			now.Requests[name] = q.DeepCopy()
		}
	}
	st.Resources = &now
}
