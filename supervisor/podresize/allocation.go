package podresize

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// Widest returns the pod with the larger of what it and its containers have and what they
// are to have: its cgroup allows both while they change.
func (r Run) Widest(pod *v1.Pod) *v1.Pod {
	if len(r.pending) == 0 {
		return pod
	}
	pod = pod.DeepCopy()
	if has := r.Record.CgroupResources; has != nil && pod.Spec.Resources != nil {
		setPodResources(pod, has.Max(podResources(pod)))
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		for _, change := range r.pending {
			if change.Name == c.Name {
				c.Resources = change.From.Max(change.To).ApplyTo(c.Resources)
			}
		}
	}
	return pod
}

// Allocated returns the pod with the resources that its running containers have, and
// those for which the others were allocated: they start with these. It is the pod
// itself if they are the desired ones.
func (r Run) Allocated(pod *v1.Pod, observed *cri.PodStatus) *v1.Pod {
	other := map[string]cri.Resources{}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		newest := observed.Newest(c.Name)
		has, known := r.Record.Allocated[c.Name]
		switch {
		case newest != nil && newest.State == cri.StateRunning:
			known = false
		case !known && newest != nil && newest.Resources != nil && observed.HasReadySandbox():
			// It was created by a version that did not record the allocation.
			has, known = *newest.Resources, true
		}
		if known && !has.Equal(cri.ResourcesOf(&c.Resources)) {
			other[c.Name] = has
		}
	}
	for _, change := range r.pending {
		other[change.Name] = change.From
	}
	whole, known := r.Record.Allocated[""]
	podDiffers := known && !whole.Equal(podResources(pod))
	if len(other) == 0 && !podDiffers {
		return pod
	}
	pod = pod.DeepCopy()
	if podDiffers {
		setPodResources(pod, whole)
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		if has, ok := other[c.Name]; ok {
			c.Resources = has.ApplyTo(c.Resources)
		}
	}
	return pod
}

// allocate records that the desired resources are allocated, and reports whether others
// were before.
func (r Run) allocate(pod *v1.Pod) (changed bool) {
	all := desiredResources(pod)
	if maps.EqualFunc(all, r.Record.Allocated, cri.Resources.Equal) {
		return false
	}
	for name, resources := range all {
		before, known := r.Record.Allocated[name]
		changed = changed || known && !before.Equal(resources)
	}
	r.Record.Allocated = all
	return changed
}

// Desired reports whether a pod wants other resources than those that are
// allocated.
func (r Run) Desired(pod *v1.Pod) bool {
	for name, resources := range desiredResources(pod) {
		if before, known := r.Record.Allocated[name]; known && !before.Equal(resources) {
			return true
		}
	}
	return false
}

// desiredResources returns the resources of the pod's containers by name, and under
// the name "" those of the pod as a whole.
func desiredResources(pod *v1.Pod) map[string]cri.Resources {
	all := map[string]cri.Resources{"": podResources(pod)}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		all[c.Name] = cri.ResourcesOf(&c.Resources)
	}
	return all
}

// podResources returns the resources of the pod as a whole, empty if it has none.
func podResources(pod *v1.Pod) cri.Resources {
	if pod.Spec.Resources == nil {
		return cri.Resources{}
	}
	return cri.ResourcesOf(pod.Spec.Resources)
}

// setPodResources sets the resources of the pod as a whole.
func setPodResources(pod *v1.Pod, to cri.Resources) {
	resources := v1.ResourceRequirements{}
	if pod.Spec.Resources != nil {
		resources = *pod.Spec.Resources
	}
	resources = to.ApplyTo(resources)
	pod.Spec.Resources = &resources
	if len(resources.Requests)+len(resources.Limits)+len(resources.Claims) == 0 {
		pod.Spec.Resources = nil
	}
}
