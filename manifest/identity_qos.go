package manifest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// podQOS is the quality-of-service class of a defaulted pod, as the kubelet
// computes it from cpu and memory: of the pod if it has resources of its own,
// else of all its containers.
func podQOS(spec *v1.PodSpec) v1.PodQOSClass {
	var holders []v1.ResourceRequirements
	if r := spec.Resources; r != nil {
		holders = append(holders, *r)
	} else {
		for i := range spec.InitContainers {
			holders = append(holders, spec.InitContainers[i].Resources)
		}
		for i := range spec.Containers {
			holders = append(holders, spec.Containers[i].Resources)
		}
	}
	guaranteed, asked := true, false
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		var requests, limits resource.Quantity
		for i := range holders {
			request, limit := holders[i].Requests[name], holders[i].Limits[name]
			asked = asked || request.Sign() > 0 || limit.Sign() > 0
			guaranteed = guaranteed && limit.Sign() > 0
			requests.Add(request)
			limits.Add(limit)
		}
		guaranteed = guaranteed && requests.Cmp(limits) == 0
	}
	switch {
	case !asked:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}
