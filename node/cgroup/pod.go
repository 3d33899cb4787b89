package cgroup

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/cgroupvalues"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// minShares are the shares of a cgroup without a request.
const minShares = 2

// podLimits returns the values of a pod's cgroup: the sum of its containers and
// the overhead, by the kubelet's rules. A limit applies to the pod only if each
// container has one, or the pod itself has it.
func (o *Options) podLimits(pod *v1.Pod) limits {
	a := amountsWithOverhead(pod)
	l := limits{shares: minShares, quota: noLimit, memory: noLimit}
	if o.PodPids > 0 {
		l.pids = o.PodPids
	} else {
		l.pids = noLimit
	}
	_, l.period = o.Settings.Quota(0)
	for _, size := range o.Settings.PageSizes {
		if l.hugePages == nil {
			l.hugePages = map[string]int64{}
		}
		l.hugePages[kernelSize(size)] = a.HugePages[size]
	}
	for size, bytes := range a.HugePages {
		if !slices.Contains(o.Settings.PageSizes, size) && bytes > 0 {
			// The kernel does not support this size: writing the limit fails.
			if l.hugePages == nil {
				l.hugePages = map[string]int64{}
			}
			l.hugePages[kernelSize(size)] = bytes
		}
	}
	if podinfo.QOSClass(pod) == v1.PodQOSBestEffort {
		return l
	}
	if o.reservesMemory() && podinfo.QOSClass(pod) == v1.PodQOSGuaranteed {
		l.memoryMin = cmp.Or(a.MemoryRequest, noLimit)
	} else if o.reservesMemory() {
		l.memoryLow = cmp.Or(a.MemoryRequest, noLimit)
	}
	l.shares = cgroupvalues.CPUShares(a.CPURequest)
	exclusive := o.NoQuota != nil && o.NoQuota(pod.UID)
	if quota, period := o.Settings.Quota(a.CPULimit); quota > 0 && !exclusive && allLimit(pod, v1.ResourceCPU) {
		l.quota, l.period = quota, period
	}
	if a.MemoryLimit > 0 && allLimit(pod, v1.ResourceMemory) {
		l.memory = a.MemoryLimit
	}
	return l
}

func amountsWithOverhead(pod *v1.Pod) podinfo.Amounts {
	a, overhead := podinfo.PodAmounts(pod), podinfo.OverheadAmounts(pod)
	a.CPURequest += overhead.CPURequest
	a.MemoryRequest += overhead.MemoryRequest
	if a.CPULimit > 0 {
		a.CPULimit += overhead.CPULimit
	}
	if a.MemoryLimit > 0 {
		a.MemoryLimit += overhead.MemoryLimit
	}
	return a
}

// allLimit reports whether the pod, or each of its containers, limits a resource.
func allLimit(pod *v1.Pod, resource v1.ResourceName) bool {
	limited := func(r *v1.ResourceRequirements) bool {
		q, ok := r.Limits[resource]
		return ok && q.Sign() > 0
	}
	if r := pod.Spec.Resources; r != nil && limited(r) {
		return true
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		if !limited(&c.Resources) {
			return false
		}
	}
	return true
}

// requiredControllers returns the controllers without which a limit of the pod or
// of one of its containers would be dropped, each with the field that needs it.
func (o *Options) requiredControllers(pod *v1.Pod) map[string]string {
	fields := map[string]string{}
	note := func(r *v1.ResourceRequirements, at string) {
		for resource, quantity := range r.Limits {
			controller := ""
			switch {
			case quantity.Sign() <= 0:
			case resource == v1.ResourceMemory:
				controller = controllerMemory
			case resource == v1.ResourceCPU && !o.Settings.NoCPUQuota:
				controller = controllerCPU
			case strings.HasPrefix(string(resource), v1.ResourceHugePagesPrefix):
				controller = controllerHugeTLB
			}
			if controller != "" && fields[controller] == "" {
				fields[controller] = at + "resources.limits." + string(resource)
			}
		}
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		note(&c.Resources, "container "+c.Name+": ")
	}
	if r := pod.Spec.Resources; r != nil {
		note(r, "spec.")
	}
	if o.PodPids > 0 {
		fields[controllerPids] = "podPidsLimit of this node"
	}
	return fields
}

// kernelSize returns a page size as in the kernel's file names: 2MB for 2Mi.
func kernelSize(size string) string { return strings.TrimSuffix(size, "i") + "B" }
