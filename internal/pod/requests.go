package pod

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Requests returns what a pod requests, by the API's rule: the cpu, memory and hugepages that the pod itself requests
// replace the total of its containers; the overhead is added. The list is the caller's.
func Requests(pod *v1.Pod) v1.ResourceList {
	peak := ContainersTotal(&pod.Spec, func(r *v1.ResourceRequirements) v1.ResourceList { return r.Requests })
	if r := pod.Spec.Resources; r != nil {
		for name, q := range r.Requests {
			if name == v1.ResourceCPU || name == v1.ResourceMemory ||
				strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
				peak[name] = q.DeepCopy()
			}
		}
	}
	AddResources(peak, pod.Spec.Overhead)
	return peak
}

// ContainersTotal returns the maximum that the containers of a pod need at the same time of their requests or limits,
// which list returns. Init containers run one after the other, next to the sidecars started before them; regular
// containers run together, next to all sidecars. The list is the caller's.
func ContainersTotal(spec *v1.PodSpec, list func(*v1.ResourceRequirements) v1.ResourceList) v1.ResourceList {
	running, peak := v1.ResourceList{}, v1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if IsSidecar(c) {
			AddResources(running, list(&c.Resources))
			raise(peak, running)
			continue
		}
		step := v1.ResourceList{}
		AddResources(step, list(&c.Resources))
		AddResources(step, running)
		raise(peak, step)
	}
	for i := range spec.Containers {
		AddResources(running, list(&spec.Containers[i].Resources))
	}
	raise(peak, running)
	return peak
}

// AddResources adds amounts to a sum, which keeps the format in which the first of each was written.
func AddResources(sum, more v1.ResourceList) {
	for name, q := range more {
		total := sum[name].DeepCopy()
		if total.IsZero() {
			total = q.DeepCopy()
		} else {
			total.Add(q)
		}
		sum[name] = total
	}
}

func raise(list, other v1.ResourceList) {
	for name, q := range other {
		if have, ok := list[name]; !ok || have.Cmp(q) < 0 {
			list[name] = q.DeepCopy()
		}
	}
}
