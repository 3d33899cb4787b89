package evict

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/wallclock"
)

// Usage is what a pod uses now; what is not known is 0.
type Usage struct {
	// Memory is the working set in bytes, Processes counts processes.
	Memory, Processes int64
	Disk              Disk
}

// Disk is what a pod holds on the node's disks.
type Disk struct {
	// At is when that was measured, zero if it was not.
	At time.Time
	// Volumes by name are those that end with the pod and lie on disk.
	Volumes map[string]Space
	// Rootfs and Logs are by container.
	Rootfs, Logs map[string]Space
}

// isOf reports whether the present run of the pod was measured, and not one that
// was evicted before it. A start time has whole seconds.
func (d Disk) isCurrent(pod *v1.Pod) bool {
	if d.At.IsZero() {
		return false
	}
	start := started(pod)
	return d.At.After(start.Add(time.Second)) || wallclock.Unset(start, d.At)
}

// Space is a part of a file system.
type Space struct{ Bytes, Inodes int64 }

func (s Space) add(o Space) Space { return Space{s.Bytes + o.Bytes, s.Inodes + o.Inodes} }

// sum of several parts.
func sum(parts ...map[string]Space) (total Space) {
	for _, part := range parts {
		for _, space := range part {
			total = total.add(space)
		}
	}
	return total
}

// Candidate is a pod with what it uses of what is short, and what it asked for.
type Candidate struct {
	Pod             *v1.Pod
	Used, Requested int64
}

// exceeds is by how much it uses more than it asked for.
func (c *Candidate) excess() int64 { return c.Used - c.Requested }

// Rank puts the pods that may be ended for a signal in the order in which they
// are: those that use more than they asked for first, then those of lower
// priority, then those that use most beyond what they asked for. For process
// IDs nobody asks: priority, then number. separate says that images have a file
// system of their own.
func Rank(pods []*v1.Pod, usage func(*v1.Pod) Usage, s Signal, separate bool) []Candidate {
	var list []Candidate
	for _, pod := range pods {
		if podinfo.IsCritical(pod) {
			continue
		}
		c := Candidate{Pod: pod}
		c.Used, c.Requested = usageOf(pod, usage(pod), s, separate)
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b Candidate) int {
		if s != PIDAvailable && (a.excess() > 0) != (b.excess() > 0) {
			return cmp.Compare(b.excess(), a.excess())
		}
		return cmp.Or(
			cmp.Compare(podinfo.Priority(a.Pod), podinfo.Priority(b.Pod)),
			cmp.Compare(b.excess(), a.excess()),
			// Of equals the younger one: it has done less.
			started(b.Pod).Compare(started(a.Pod)),
			cmp.Compare(a.Pod.Namespace+"/"+a.Pod.Name, b.Pod.Namespace+"/"+b.Pod.Name),
		)
	})
	return list
}

// stake is what a pod uses of what is short, and what it asked for of that.
func usageOf(pod *v1.Pod, u Usage, s Signal, separate bool) (used, requested int64) {
	switch {
	case s.isMemory():
		return u.Memory, podinfo.PodAmounts(pod).MemoryRequest + podinfo.OverheadAmounts(pod).MemoryRequest
	case s == PIDAvailable:
		return u.Processes, 0
	}
	var space Space
	switch {
	case !separate:
		space = sum(u.Disk.Volumes, u.Disk.Logs, u.Disk.Rootfs)
	case s.isImageFS():
		space = sum(u.Disk.Rootfs)
	default:
		space = sum(u.Disk.Volumes, u.Disk.Logs)
	}
	if s.Resource() == v1.ResourceEphemeralStorage {
		return space.Bytes, storageOf(pod, func(r *v1.ResourceRequirements) v1.ResourceList { return r.Requests })
	}
	return space.Inodes, 0
}

// storageOf is the ephemeral storage of a list of a pod's containers, in bytes:
// what the regular ones have together with the sidecars, or any init container
// with the sidecars before it.
func storageOf(pod *v1.Pod, list func(*v1.ResourceRequirements) v1.ResourceList) int64 {
	var sidecars, peak, regular int64
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		own := storage(list(&c.Resources))
		peak = max(peak, sidecars+own)
		if podinfo.IsSidecar(c) {
			sidecars += own
		}
	}
	for i := range pod.Spec.Containers {
		regular += storage(list(&pod.Spec.Containers[i].Resources))
	}
	return max(peak, sidecars+regular)
}

func storage(list v1.ResourceList) int64 { return list.StorageEphemeral().Value() }

func started(pod *v1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}
