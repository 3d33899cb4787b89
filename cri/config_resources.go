package cri

import (
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Bounds of the kernel's CPU controller, as the kubelet uses them.
const (
	sharesPerCPU = 1024
	minShares    = 2
	maxShares    = 262144
	milliPerCPU  = 1000
	// quotaPeriod is cpuCFSQuotaPeriod and minQuota the kernel's least quota,
	// both in microseconds.
	quotaPeriod = 100_000
	minQuota    = 1000
)

// oom_score_adj by QoS class, as the kubelet sets it.
const (
	oomGuaranteed = -997
	oomBestEffort = 1000
	oomBurstable  = 1000 + oomGuaranteed // the least of a Burstable container
)

// classNodeCritical is the priority class whose pods are killed last.
const classNodeCritical = "system-node-critical"

// amounts are cpu in thousandths and memory in bytes; what is absent is 0.
type amounts struct {
	cpuRequest, cpuLimit, memoryRequest, memoryLimit int64
	// cpuRequested tells a request of 0 from none.
	cpuRequested bool
}

func amountsOf(r v1.ResourceRequirements) amounts {
	_, requested := r.Requests[v1.ResourceCPU]
	return amounts{
		cpuRequest:    r.Requests.Cpu().MilliValue(),
		cpuLimit:      r.Limits.Cpu().MilliValue(),
		memoryRequest: r.Requests.Memory().Value(),
		memoryLimit:   r.Limits.Memory().Value(),
		cpuRequested:  requested,
	}
}

// linux is what the runtime is told. A request that is absent is the limit.
func (a amounts) linux() *runtimeapi.LinuxContainerResources {
	request := a.cpuRequest
	if !a.cpuRequested {
		request = a.cpuLimit
	}
	return &runtimeapi.LinuxContainerResources{
		CpuShares:          shares(request),
		CpuQuota:           quota(a.cpuLimit),
		CpuPeriod:          quotaPeriod,
		MemoryLimitInBytes: a.memoryLimit,
	}
}

func shares(milli int64) int64 {
	return min(max(milli*sharesPerCPU/milliPerCPU, minShares), maxShares)
}

// quota is 0, for none, without a limit.
func quota(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*quotaPeriod/milliPerCPU, minQuota)
}

func containerResources(pod *v1.Pod, c *v1.Container, hostMemory int64) *runtimeapi.LinuxContainerResources {
	r := amountsOf(c.Resources).linux()
	r.OomScoreAdj = oomScoreAdj(pod, c, hostMemory)
	return r
}

// podResources is what a sandbox with a kernel of its own needs to hold the
// pod: the sum of the regular containers, or the greatest init container if
// that is more.
func podResources(pod *v1.Pod) *runtimeapi.LinuxContainerResources {
	var sum amounts
	for i := range pod.Spec.Containers {
		a := amountsOf(pod.Spec.Containers[i].Resources)
		sum.cpuRequest += a.cpuRequest
		sum.cpuLimit += a.cpuLimit
		sum.memoryLimit += a.memoryLimit
		sum.cpuRequested = sum.cpuRequested || a.cpuRequested
	}
	for i := range pod.Spec.InitContainers {
		a := amountsOf(pod.Spec.InitContainers[i].Resources)
		sum.cpuRequest = max(sum.cpuRequest, a.cpuRequest)
		sum.cpuLimit = max(sum.cpuLimit, a.cpuLimit)
		sum.memoryLimit = max(sum.memoryLimit, a.memoryLimit)
		sum.cpuRequested = sum.cpuRequested || a.cpuRequested
	}
	return sum.linux()
}

// oomScoreAdj tells the kernel whom to kill first. A Burstable container is
// the safer the more memory it requests.
func oomScoreAdj(pod *v1.Pod, c *v1.Container, hostMemory int64) int64 {
	if pod.Spec.PriorityClassName == classNodeCritical {
		return oomGuaranteed
	}
	switch QOSClass(pod) {
	case v1.PodQOSGuaranteed:
		return oomGuaranteed
	case v1.PodQOSBestEffort:
		return oomBestEffort
	}
	score := int64(oomBestEffort - 1)
	if hostMemory > 0 {
		score = oomBestEffort - oomBestEffort*c.Resources.Requests.Memory().Value()/hostMemory
	}
	return min(max(score, oomBurstable), oomBestEffort-1)
}
