package podtable

import (
	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Resize reports why a pod does not have the resources of its manifest: its resize is Infeasible or Deferred, or an
// attempt failed and is repeated. It is empty for other pods, and while a resize is in progress.
func Resize(p *v1.Pod) string {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		switch {
		case c.Status != v1.ConditionTrue:
		case c.Type == v1.PodResizePending && c.Reason != "":
			return "its resize is " + c.Reason + ": " + c.Message
		case c.Type == v1.PodResizeInProgress && c.Reason == v1.PodReasonError:
			return "its resize failed, retrying: " + c.Message
		}
	}
	return ""
}

// Infeasible reports whether the node can never give a pod the resources of its manifest.
func Infeasible(p *v1.Pod) bool {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == v1.PodResizePending && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonInfeasible {
			return true
		}
	}
	return false
}

// Resized reports whether a pod has the resources of its manifest, as far as its status shows what it has. A status
// without a condition of a resize may be from before the manifest changed.
func Resized(p *v1.Pod) bool {
	if isTrue(p, v1.PodResizePending) || isTrue(p, v1.PodResizeInProgress) {
		return false
	}
	has := map[string]*v1.ResourceRequirements{}
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if list[i].State.Running != nil {
				has[list[i].Name] = list[i].Resources
			}
		}
	}
	for c := range podinfo.LongRunning(&p.Spec) {
		if now := has[c.Name]; now != nil && !(sameAmounts(now.Requests, c.Resources.Requests) &&
			sameAmounts(now.Limits, c.Resources.Limits)) {
			return false
		}
	}
	return p.Spec.Resources == nil || p.Status.Resources == nil ||
		sameAmounts(p.Status.Resources.Limits, p.Spec.Resources.Limits)
}

// sameAmounts reports whether two lists have the same cpu and memory, the resources that can be resized.
func sameAmounts(a, b v1.ResourceList) bool {
	return a.Cpu().Cmp(*b.Cpu()) == 0 && a.Memory().Cmp(*b.Memory()) == 0
}
