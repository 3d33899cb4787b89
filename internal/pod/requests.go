package pod

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Requests returns what a pod requests, by the API's rule: init containers run one after the
// other, next to the sidecars that started before them; the regular containers run together
// with all sidecars; the cpu, memory and hugepages that the pod itself requests replace the sum;
// the overhead is added. The list is the caller's.
func Requests(pod *v1.Pod) v1.ResourceList {
	running, peak := v1.ResourceList{}, v1.ResourceList{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		step := maps.Clone(running)
		addTo(step, c.Resources.Requests)
		raise(peak, step)
		if IsSidecar(c) {
			running = step
		}
	}
	for i := range pod.Spec.Containers {
		addTo(running, pod.Spec.Containers[i].Resources.Requests)
	}
	raise(peak, running)
	if r := pod.Spec.Resources; r != nil {
		for name, q := range r.Requests {
			if name == v1.ResourceCPU || name == v1.ResourceMemory ||
				strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
				peak[name] = q.DeepCopy()
			}
		}
	}
	addTo(peak, pod.Spec.Overhead)
	return peak
}

func addTo(list, more v1.ResourceList) {
	for name, q := range more {
		sum := list[name].DeepCopy()
		if sum.IsZero() {
			sum = q.DeepCopy()
		} else {
			sum.Add(q)
		}
		list[name] = sum
	}
}

func raise(list, other v1.ResourceList) {
	for name, q := range other {
		if have, ok := list[name]; !ok || have.Cmp(q) < 0 {
			list[name] = q.DeepCopy()
		}
	}
}
