package evict

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/wallclock"
)

// Usage is the current usage of a pod; unknown values are 0.
type Usage struct {
	// Memory is the working set in bytes, Processes the number of processes.
	Memory, Processes int64
	Disk              Disk
}

// Disk is the disk usage of a pod.
type Disk struct {
	// At is the time of the measurement, zero if there was none.
	At time.Time
	// Volumes are, by name, those on disk that are removed with the pod.
	Volumes map[string]Space
	// Rootfs and Logs are by container.
	Rootfs, Logs map[string]Space
	// Files are the pod's /etc/hosts and termination messages.
	Files Space
}

// nodefs returns what is on the file system of the node, without the writable layers.
func (d *Disk) nodefs() Space { return sum(d.Volumes, d.Logs).add(d.Files) }

// isCurrent reports whether the present run of the pod was measured, and not an
// earlier one that was evicted. A start time has whole seconds.
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

// sum adds several parts.
func sum(parts ...map[string]Space) (total Space) {
	for _, part := range parts {
		for _, space := range part {
			total = total.add(space)
		}
	}
	return total
}

// Candidate is a pod with its usage and request of the short resource.
type Candidate struct {
	Pod             *v1.Pod
	Used, Requested int64
}

// excess is by how much the usage exceeds the request.
func (c *Candidate) excess() int64 { return c.Used - c.Requested }

// Rank returns the pods that may be evicted for a signal, in the order of
// eviction: pods that exceed their request first, then pods of lower priority,
// then those that exceed their request most. For process IDs, which cannot be
// requested: by priority, then by number. separate reports that images have a file
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
			// Of equal pods the younger one: it has done less work.
			started(b.Pod).Compare(started(a.Pod)),
			cmp.Compare(a.Pod.Namespace+"/"+a.Pod.Name, b.Pod.Namespace+"/"+b.Pod.Name),
		)
	})
	return list
}

// usageOf returns the usage and the request of the short resource.
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
		space = u.Disk.nodefs().add(sum(u.Disk.Rootfs))
	case s.isImageFS():
		space = sum(u.Disk.Rootfs)
	default:
		space = u.Disk.nodefs()
	}
	if s.Resource() == v1.ResourceEphemeralStorage {
		requested = podinfo.EphemeralStorage(pod, func(r *v1.ResourceRequirements) v1.ResourceList { return r.Requests })
	}
	return s.amount(space), requested
}

func started(pod *v1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}
