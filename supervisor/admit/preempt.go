package admit

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// ReasonPreempting is the reason of a pod that was ended for a critical one, as in
// the kubelet.
const ReasonPreempting = "Preempting"

// preempts reports whether other pods may be ended for the requesting pod.
func preempts(s *Request) bool {
	policy := s.Pod.Spec.PreemptionPolicy
	return !s.Resize && podinfo.IsCritical(s.Pod) && (policy == nil || *policy != v1.PreemptNever)
}

// victims returns the pods of strictly lower priority to end so that a critical pod
// has room: as few and as unimportant ones as possible; none if those that are
// ending make room for it, or if even ending all others would not.
func (f *forecast) victims(request *Request) []*Request {
	missing := Resources{}
	for name, amount := range request.Resources {
		if has, bounded := capacityOf(f.capacity, name); bounded && amount > 0 {
			missing[name] = f.used[name] + f.reserved[name] + amount - has
		}
	}
	var classes = map[v1.PodQOSClass][]*Request{}
	for _, h := range f.holders {
		switch {
		case h.Terminating:
			missing.subtract(h.Resources)
		case podinfo.PolicyOf(request.Pod).YieldsName && !podinfo.PolicyOf(h.Pod).YieldsName:
			// A static pod is never preempted for a pod of the cluster.
		case h.Pod.UID != request.Pod.UID && podinfo.Priority(h.Pod) < podinfo.Priority(request.Pod):
			class := podinfo.QOSClass(h.Pod)
			classes[class] = append(classes[class], h)
		}
	}
	if missing.satisfied() {
		return nil
	}
	bestEffort, burstable, guaranteed := classes[v1.PodQOSBestEffort], classes[v1.PodQOSBurstable],
		classes[v1.PodQOSGuaranteed]
	if !missing.without(bestEffort, burstable, guaranteed).satisfied() {
		return nil
	}
	// Of each class only what the less important classes cannot give.
	guaranteed = closestFit(guaranteed, missing.without(bestEffort, burstable))
	burstable = closestFit(burstable, missing.without(bestEffort, guaranteed))
	bestEffort = closestFit(bestEffort, missing.without(burstable, guaranteed))
	return missing.reprieve(slices.Concat(guaranteed, burstable, bestEffort))
}

// satisfied reports whether nothing is missing.
func (n Resources) satisfied() bool {
	for _, amount := range n {
		if amount > 0 {
			return false
		}
	}
	return true
}

// without returns what is still missing when some pods have ended.
func (n Resources) without(lists ...[]*Request) Resources {
	left := maps.Clone(n)
	for _, list := range lists {
		for _, s := range list {
			left.subtract(s.Resources)
		}
	}
	return left
}

// closestFit chooses requests that give what is missing, each time the one that comes
// closest to it.
func closestFit(from []*Request, missing Resources) (chosen []*Request) {
	from = slices.Clone(from)
	for !missing.satisfied() && len(from) > 0 {
		next := slices.MinFunc(from, func(a, b *Request) int {
			return cmp.Or(
				cmp.Compare(missing.distance(a), missing.distance(b)),
				cmp.Compare(a.Resources[v1.ResourceMemory], b.Resources[v1.ResourceMemory]),
				cmp.Compare(a.Resources[v1.ResourceCPU], b.Resources[v1.ResourceCPU]),
				cmp.Compare(podinfo.Priority(a.Pod), podinfo.Priority(b.Pod)),
				b.Since.Compare(a.Since),
				strings.Compare(a.Name, b.Name),
			)
		})
		chosen = append(chosen, next)
		missing = missing.without([]*Request{next})
		from = slices.DeleteFunc(from, func(s *Request) bool { return s == next })
	}
	return chosen
}

// distance returns how much of what is missing a request leaves missing: the sum of
// the squares of the fractions.
func (n Resources) distance(s *Request) float64 {
	sum := 0.0
	for name, amount := range n {
		if left := amount - s.Resources[name]; amount > 0 && left > 0 {
			part := float64(left) / float64(amount)
			sum += part * part
		}
	}
	return sum
}

// reprieve leaves out the victims that need not end after all, the most important
// ones first.
func (n Resources) reprieve(victims []*Request) []*Request {
	for i := 0; i < len(victims); {
		if n.without(victims[:i], victims[i+1:]).satisfied() {
			victims = slices.Delete(victims, i, i+1)
		} else {
			i++
		}
	}
	return victims
}
