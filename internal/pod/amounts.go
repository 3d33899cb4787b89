package pod

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Amounts are resources as the kernel counts them: CPU in millicores, memory and
// hugepages in bytes. 0 means none.
type Amounts struct {
	CPURequest, CPULimit, MemoryRequest, MemoryLimit int64
	// CPURequested distinguishes a request of 0 from no request.
	CPURequested bool
	// HugePages are the limits by page size as in the resource's name, such
	// as 2Mi.
	HugePages map[string]int64
}

// AmountsOf returns those of one container, or of a pod as a whole.
func AmountsOf(r *v1.ResourceRequirements) Amounts {
	_, requested := r.Requests[v1.ResourceCPU]
	a := Amounts{
		CPURequest:    r.Requests.Cpu().MilliValue(),
		CPULimit:      r.Limits.Cpu().MilliValue(),
		MemoryRequest: r.Requests.Memory().Value(),
		MemoryLimit:   r.Limits.Memory().Value(),
		CPURequested:  requested,
	}
	for name, quantity := range r.Limits {
		if size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
			a.setHugePages(size, quantity.Value())
		}
	}
	return a
}

// ContainerAmounts returns those of the cgroup of a container. A limit that only its pod has is also its
// own, as at the kubelet: a program that sizes its memory and its threads by its own cgroup sees it. The
// request stays that of the container.
func ContainerAmounts(pod *v1.Pod, c *v1.Container) Amounts {
	a := AmountsOf(&c.Resources)
	if pod.Spec.Resources == nil {
		return a
	}
	whole := AmountsOf(pod.Spec.Resources)
	if a.CPULimit == 0 && whole.CPULimit > 0 {
		a.CPULimit, a.CPURequested = whole.CPULimit, true
	}
	if a.MemoryLimit == 0 {
		a.MemoryLimit = whole.MemoryLimit
	}
	for size, bytes := range whole.HugePages {
		if _, own := a.HugePages[size]; !own {
			a.setHugePages(size, bytes)
		}
	}
	return a
}

// PodAmounts returns the most that a pod needs at one time. Init containers run one
// after the other, next to the sidecars that started before them; the regular
// containers run together, next to all sidecars. Pod-level resources replace the
// sum. The overhead is not included.
func PodAmounts(pod *v1.Pod) Amounts {
	var running, peak Amounts
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		step := AmountsOf(&c.Resources)
		step.add(running)
		peak.raise(step)
		if IsSidecar(c) {
			running = step
		}
	}
	for i := range pod.Spec.Containers {
		running.add(AmountsOf(&pod.Spec.Containers[i].Resources))
	}
	peak.raise(running)
	if r := pod.Spec.Resources; r != nil {
		peak.override(r)
	}
	return peak
}

// OverheadAmounts returns what the pod's runtime class needs in addition to its
// containers. They are added to requests, and to limits that are set.
func OverheadAmounts(pod *v1.Pod) Amounts {
	return Amounts{
		CPURequest:    pod.Spec.Overhead.Cpu().MilliValue(),
		CPULimit:      pod.Spec.Overhead.Cpu().MilliValue(),
		MemoryRequest: pod.Spec.Overhead.Memory().Value(),
		MemoryLimit:   pod.Spec.Overhead.Memory().Value(),
		CPURequested:  !pod.Spec.Overhead.Cpu().IsZero(),
	}
}

func (a *Amounts) add(b Amounts) {
	a.CPURequest += b.CPURequest
	a.CPULimit += b.CPULimit
	a.MemoryRequest += b.MemoryRequest
	a.MemoryLimit += b.MemoryLimit
	a.CPURequested = a.CPURequested || b.CPURequested
	for size, bytes := range b.HugePages {
		a.setHugePages(size, a.HugePages[size]+bytes)
	}
}

// raise sets each amount to the greater one.
func (a *Amounts) raise(b Amounts) {
	a.CPURequest = max(a.CPURequest, b.CPURequest)
	a.CPULimit = max(a.CPULimit, b.CPULimit)
	a.MemoryRequest = max(a.MemoryRequest, b.MemoryRequest)
	a.MemoryLimit = max(a.MemoryLimit, b.MemoryLimit)
	a.CPURequested = a.CPURequested || b.CPURequested
	for size, bytes := range b.HugePages {
		a.setHugePages(size, max(a.HugePages[size], bytes))
	}
}

func (a *Amounts) override(r *v1.ResourceRequirements) {
	own := AmountsOf(r)
	if own.CPURequested {
		a.CPURequest, a.CPURequested = own.CPURequest, true
	}
	if _, ok := r.Requests[v1.ResourceMemory]; ok {
		a.MemoryRequest = own.MemoryRequest
	}
	if _, ok := r.Limits[v1.ResourceCPU]; ok {
		a.CPULimit = own.CPULimit
	}
	if _, ok := r.Limits[v1.ResourceMemory]; ok {
		a.MemoryLimit = own.MemoryLimit
	}
	for size, bytes := range own.HugePages {
		a.setHugePages(size, bytes)
	}
}

// setHugePages copies the map, which other values may share.
func (a *Amounts) setHugePages(size string, bytes int64) {
	pages := make(map[string]int64, len(a.HugePages)+1)
	for s, b := range a.HugePages {
		pages[s] = b
	}
	pages[size] = bytes
	a.HugePages = pages
}
