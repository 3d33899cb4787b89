package admit

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// ReasonPreempting is that of a pod that was ended for a critical one, the
// kubelet's.
const ReasonPreempting = "Preempting"

// preempts reports whether others may be ended for a pod that asks.
func preempts(s *Stake) bool {
	policy := s.Pod.Spec.PreemptionPolicy
	return !s.Grows && podinfo.IsCritical(s.Pod) && (policy == nil || *policy != v1.PreemptNever)
}

// victims are the pods of strictly lower priority to end so that a critical
// one has room, as few and as unimportant ones as can be; none if those that are
// ending give it room, or if even all others would not.
func (f *forecast) victims(asks *Stake) []*Stake {
	missing := Needs{}
	for name, amount := range asks.Needs {
		if has, bounded := capacity(f.has, name); bounded && amount > 0 {
			missing[name] = f.used[name] + f.kept[name] + amount - has
		}
	}
	var classes = map[v1.PodQOSClass][]*Stake{}
	for _, h := range f.holders {
		switch {
		case h.Ending:
			missing.subtract(h.Needs)
		case podinfo.PolicyOf(asks.Pod).YieldsName && !podinfo.PolicyOf(h.Pod).YieldsName:
			// A pod of this node's manifests is never preempted for a pod of the cluster.
		case h.Pod.UID != asks.Pod.UID && podinfo.Priority(h.Pod) < podinfo.Priority(asks.Pod):
			class := podinfo.QOSClass(h.Pod)
			classes[class] = append(classes[class], h)
		}
	}
	if missing.covered() {
		return nil
	}
	best, burst, sure := classes[v1.PodQOSBestEffort], classes[v1.PodQOSBurstable], classes[v1.PodQOSGuaranteed]
	if !missing.without(best, burst, sure).covered() {
		return nil
	}
	// Of each class only what the less important ones cannot give.
	sure = nearest(sure, missing.without(best, burst))
	burst = nearest(burst, missing.without(best, sure))
	best = nearest(best, missing.without(burst, sure))
	return missing.spare(slices.Concat(sure, burst, best))
}

func (n Needs) covered() bool {
	for _, amount := range n {
		if amount > 0 {
			return false
		}
	}
	return true
}

// without is what is missing still when some have ended.
func (n Needs) without(lists ...[]*Stake) Needs {
	left := maps.Clone(n)
	for _, list := range lists {
		for _, s := range list {
			left.subtract(s.Needs)
		}
	}
	return left
}

// nearest chooses stakes that give what is missing, each time the one that
// comes nearest to it.
func nearest(from []*Stake, missing Needs) (chosen []*Stake) {
	from = slices.Clone(from)
	for !missing.covered() && len(from) > 0 {
		next := slices.MinFunc(from, func(a, b *Stake) int {
			return cmp.Or(
				cmp.Compare(missing.distance(a), missing.distance(b)),
				cmp.Compare(a.Needs[v1.ResourceMemory], b.Needs[v1.ResourceMemory]),
				cmp.Compare(a.Needs[v1.ResourceCPU], b.Needs[v1.ResourceCPU]),
				cmp.Compare(podinfo.Priority(a.Pod), podinfo.Priority(b.Pod)),
				b.Since.Compare(a.Since),
				strings.Compare(a.Name, b.Name),
			)
		})
		chosen = append(chosen, next)
		missing = missing.without([]*Stake{next})
		from = slices.DeleteFunc(from, func(s *Stake) bool { return s == next })
	}
	return chosen
}

// distance is how much of what is missing a stake leaves missing: the sum of
// the squares of the parts.
func (n Needs) distance(s *Stake) float64 {
	sum := 0.0
	for name, amount := range n {
		if left := amount - s.Needs[name]; amount > 0 && left > 0 {
			part := float64(left) / float64(amount)
			sum += part * part
		}
	}
	return sum
}

// spare leaves out whoever need not end after all, the most important first.
func (n Needs) spare(victims []*Stake) []*Stake {
	for i := 0; i < len(victims); {
		if n.without(victims[:i], victims[i+1:]).covered() {
			victims = slices.Delete(victims, i, i+1)
		} else {
			i++
		}
	}
	return victims
}
