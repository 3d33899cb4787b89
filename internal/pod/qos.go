package pod

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// qosResources are the resources that decide the QoS class.
var qosResources = [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}

// QOSClass returns the quality-of-service class of a defaulted pod, by the API's
// rule: BestEffort if no container requests cpu or memory, Guaranteed if every
// container has limits for both and requests equal to them, else Burstable. Zero
// amounts count as absent. Pod-level resources, if set, replace those of containers; as
// in Kubernetes, an empty object is set and makes the pod BestEffort.
func QOSClass(pod *v1.Pod) v1.PodQOSClass {
	if r := pod.Spec.Resources; r != nil {
		return classOf(hasResources(r), guaranteed(r))
	}
	asked, all := false, true
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			asked = asked || hasResources(&list[i].Resources)
			all = all && guaranteed(&list[i].Resources)
		}
	}
	return classOf(asked, all)
}

func classOf(asked, guaranteed bool) v1.PodQOSClass {
	switch {
	case !asked:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}

func hasResources(r *v1.ResourceRequirements) bool {
	for _, name := range qosResources {
		if positive(r.Requests[name]) || positive(r.Limits[name]) {
			return true
		}
	}
	return false
}

func guaranteed(r *v1.ResourceRequirements) bool {
	for _, name := range qosResources {
		limit := r.Limits[name]
		request, ok := r.Requests[name]
		if !ok {
			request = limit // as API defaulting does
		}
		if !positive(limit) || request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}

func positive(q resource.Quantity) bool { return q.Sign() > 0 }
