package validation

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// defaultRequests adds a request for every limit without one.
func defaultRequests(r *v1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = v1.ResourceList{}
	}
	addMissing(r.Requests, r.Limits)
}

// defaultPodResources completes pod-level resources that are partly set. A
// hugepage limit is the sum of the containers' limits. A request is the total
// of the containers' requests for a resource that can be overcommitted, and
// otherwise the pod's own limit.
func defaultPodResources(spec *v1.PodSpec) {
	r := spec.Resources
	if r == nil {
		return
	}
	defer func() {
		roundUp(r.Limits)
		roundUp(r.Requests)
	}()

	if len(r.Limits)+len(r.Requests) > 0 {
		limits := v1.ResourceList{}
		for name, quantity := range podinfo.ContainersTotal(spec, limitsOf) {
			if _, requested := r.Requests[name]; !requested && isHugePages(name) {
				limits[name] = quantity
			}
		}
		r.Limits = withMissing(r.Limits, limits)
	}
	if len(r.Limits) > 0 {
		requests := v1.ResourceList{}
		for name, quantity := range podinfo.ContainersTotal(spec, requestsOf) {
			if isPodLevelResource(name) && canOvercommit(name) {
				requests[name] = quantity
			}
		}
		for name, quantity := range r.Limits {
			if _, set := requests[name]; !set && isPodLevelResource(name) {
				requests[name] = quantity.DeepCopy()
			}
		}
		r.Requests = withMissing(r.Requests, requests)
	}
}

// withMissing returns list with the entries of more that it lacks. It stays nil
// if there are none.
func withMissing(list, more v1.ResourceList) v1.ResourceList {
	if list == nil && len(more) > 0 {
		list = v1.ResourceList{}
	}
	addMissing(list, more)
	return list
}

func addMissing(list, more v1.ResourceList) {
	for name, quantity := range more {
		if _, set := list[name]; !set {
			list[name] = quantity.DeepCopy()
		}
	}
}

// roundUp rounds every quantity up to milli-units, the finest precision of the
// API.
func roundUp(list v1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

func limitsOf(r *v1.ResourceRequirements) v1.ResourceList   { return r.Limits }
func requestsOf(r *v1.ResourceRequirements) v1.ResourceList { return r.Requests }

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// isPodLevelResource reports whether spec.resources can contain a resource.
func isPodLevelResource(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || isHugePages(name)
}

// isNativeResource reports whether Kubernetes itself defines a resource.
// Extended resources have another domain in their name.
func isNativeResource(name v1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
}

// canOvercommit reports whether the request of a resource may be below its
// limit.
func canOvercommit(name v1.ResourceName) bool {
	return isNativeResource(name) && !isHugePages(name)
}
