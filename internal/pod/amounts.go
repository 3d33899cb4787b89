package pod

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Amounts are resources as the kernel counts them: cpu in thousandths, memory
// and hugepages in bytes. 0 is none.
type Amounts struct {
	CPURequest, CPULimit, MemoryRequest, MemoryLimit int64
	// CPURequested tells a request of 0 from none.
	CPURequested bool
	// HugePages are the limits by page size as in the resource's name, such
	// as 2Mi.
	HugePages map[string]int64
}

// AmountsOf are those of one container, or of a pod as a whole.
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

// PodAmounts are what a pod needs at once, at most: init containers run one
// after the other beside the sidecars that started before them, the regular
// containers together beside all sidecars. What the pod itself states stands
// in place of the sum. The overhead is not in it.
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

// OverheadAmounts are what the pod's runtime class says that it needs beside
// its containers. They are requests, and raise limits that there are.
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

// raise makes each amount the greater one.
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

// setHugePages never writes to a map that another value shares.
func (a *Amounts) setHugePages(size string, bytes int64) {
	pages := make(map[string]int64, len(a.HugePages)+1)
	for s, b := range a.HugePages {
		pages[s] = b
	}
	pages[size] = bytes
	a.HugePages = pages
}
