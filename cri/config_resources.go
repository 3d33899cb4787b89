package cri

import (
	"maps"
	"math"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/internal/cgroupvalues"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// oom_score_adj by QoS class, as the kubelet sets it.
const (
	oomGuaranteed = -997
	oomBestEffort = 1000
	oomBurstable  = 1000 + oomGuaranteed // the least of a Burstable container
)

// classNodeCritical is the priority class whose pods are killed last.
const classNodeCritical = "system-node-critical"

// linuxResources are the amounts as CRI has them. A request that is absent is
// the limit.
func linuxResources(s cgroupvalues.Settings, a podinfo.Amounts) *runtimeapi.LinuxContainerResources {
	request := a.CPURequest
	if !a.CPURequested {
		request = a.CPULimit
	}
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          cgroupvalues.CPUShares(request),
		MemoryLimitInBytes: a.MemoryLimit,
	}
	r.CpuQuota, r.CpuPeriod = s.Quota(a.CPULimit)
	return r
}

// containerResources returns those of one container. A container that runs out of
// memory is killed as a whole, as with the kubelet.
func (g config) containerResources(pod *v1.Pod, c *v1.Container,
	assigned Assigned) *runtimeapi.LinuxContainerResources {
	a, own := podinfo.ContainerAmounts(pod, c), podinfo.AmountsOf(&c.Resources)
	r := linuxResources(g.cgroup, a)
	r.OomScoreAdj = oomScoreAdj(pod, c, g.memory)
	if assigned != nil {
		exclusive := false
		if r.CpusetCpus, exclusive = assigned.CPUs(pod.UID, c.Name); exclusive {
			r.CpuQuota = 0 // a quota would only throttle a container on its own CPUs
		}
		r.CpusetMems = assigned.NUMANodes(pod.UID, c.Name)
	}
	for _, size := range g.cgroup.PageSizes {
		// A size that is not requested is 0, not unlimited.
		r.HugepageLimits = append(r.HugepageLimits, &runtimeapi.HugepageLimit{
			PageSize: kernelPageSize(size), Limit: uint64(a.HugePages[size]),
		})
	}
	if !g.cgroup.V2 {
		return r
	}
	unified := map[string]string{}
	if !g.cgroup.SingleProcessOOMKill {
		unified["memory.oom.group"] = "1"
	}
	if g.cgroup.SwapLimit {
		swap := g.swapLimit(pod, own)
		// The limit counts memory and swap together.
		if r.MemorySwapLimitInBytes = a.MemoryLimit + swap; a.MemoryLimit == 0 {
			r.MemorySwapLimitInBytes, unified["memory.swap.max"] = 0, strconv.FormatInt(swap, 10)
		}
	}
	if q := g.cgroup.MemoryQoS; q != nil {
		maps.Copy(unified, memoryQoS(q, pod, own, a.MemoryLimit != own.MemoryLimit))
	}
	if len(unified) > 0 {
		r.Unified = unified
	}
	return r
}

// swapLimit returns how much a container may swap, in bytes. As at the kubelet those of Guaranteed,
// BestEffort and critical pods do not, nor does one whose request is its limit. The kubelet counts
// every static pod as critical; here the priority decides.
func (g config) swapLimit(pod *v1.Pod, a podinfo.Amounts) int64 {
	if podinfo.QOSClass(pod) != v1.PodQOSBurstable || podinfo.IsCritical(pod) || a.MemoryRequest == a.MemoryLimit {
		return 0
	}
	return g.cgroup.SwapOf(a.MemoryRequest, g.memory)
}

// memoryQoS returns the files of memory QoS. All of them are set, because a resize may have to
// undo an earlier value. A container that only inherits its limit is throttled with its pod.
func memoryQoS(q *cgroupvalues.MemoryQoS, pod *v1.Pod, a podinfo.Amounts, inherits bool) map[string]string {
	files := map[string]string{"memory.min": "0", "memory.low": "0", "memory.high": "max"}
	if q.Reserve {
		file := "memory.low"
		if podinfo.QOSClass(pod) == v1.PodQOSGuaranteed {
			file = "memory.min"
		}
		files[file] = strconv.FormatInt(a.MemoryRequest, 10)
	}
	if high := q.High(a.MemoryRequest, a.MemoryLimit); high > 0 && !inherits {
		files["memory.high"] = strconv.FormatInt(high, 10)
	}
	return files
}

// kernelPageSize returns a page size as in the kernel's file names: 2MB for 2Mi.
func kernelPageSize(size string) string {
	return strings.TrimSuffix(size, "i") + "B"
}

// podResources returns what a sandbox with a kernel of its own needs for the pod,
// and podOverhead what it needs in addition to the containers.
func (g config) podResources(pod *v1.Pod) *runtimeapi.LinuxContainerResources {
	return linuxResources(g.cgroup, podinfo.PodAmounts(pod))
}

func (g config) podOverhead(pod *v1.Pod) *runtimeapi.LinuxContainerResources {
	if len(pod.Spec.Overhead) == 0 {
		return &runtimeapi.LinuxContainerResources{}
	}
	return linuxResources(g.cgroup, podinfo.OverheadAmounts(pod))
}

// oomScoreAdj returns the kernel's priority for killing the container when memory
// is short. The more memory a Burstable container requests, the lower it is.
func oomScoreAdj(pod *v1.Pod, c *v1.Container, hostMemory int64) int64 {
	if pod.Spec.PriorityClassName == classNodeCritical {
		return oomGuaranteed
	}
	switch podinfo.QOSClass(pod) {
	case v1.PodQOSGuaranteed:
		return oomGuaranteed
	case v1.PodQOSBestEffort:
		return oomBestEffort
	}
	score := int64(oomBestEffort - 1)
	if hostMemory > 0 {
		request := c.Resources.Requests.Memory().Value()
		if isInit(pod, c.Name) && podinfo.IsSidecar(c) {
			// A sidecar is never killed before the containers that it serves.
			request = max(request, minMemoryRequest(pod))
		}
		score = oomBestEffort - oomBestEffort*(request+podMemoryShare(pod))/hostMemory
	}
	return min(max(score, oomBurstable), oomBestEffort-1)
}

// minMemoryRequest returns the least memory that a regular container requests.
func minMemoryRequest(pod *v1.Pod) int64 {
	least := int64(math.MaxInt64)
	for i := range pod.Spec.Containers {
		least = min(least, pod.Spec.Containers[i].Resources.Requests.Memory().Value())
	}
	return least
}

// podMemoryShare returns each container's share of the memory that only the pod
// as a whole requests.
func podMemoryShare(pod *v1.Pod) int64 {
	if pod.Spec.Resources == nil {
		return 0
	}
	request, ok := pod.Spec.Resources.Requests[v1.ResourceMemory]
	if !ok {
		return 0
	}
	whole := *pod
	whole.Spec.Resources = nil
	rest := request.Value() - podinfo.PodAmounts(&whole).MemoryRequest
	return max(rest, 0) / int64(len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
}
