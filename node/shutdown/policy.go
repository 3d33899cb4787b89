package shutdown

import (
	"cmp"
	"slices"
	"time"
)

// Group is the pods from a priority up to that of the next group. The first group
// includes lower priorities.
type Group struct {
	Priority int32
	// Period is how long the group may take to terminate. The next group starts as
	// soon as it has terminated.
	Period time.Duration
}

// Policy has the groups by ascending priority. An empty policy does not delay the
// shutdown.
type Policy []Group

// CriticalPriority is the lowest priority of a critical pod, as at the kubelet:
// that of the class system-cluster-critical.
const CriticalPriority = 2_000_000_000

// NewPolicy returns the groups for a total period and the part of it for critical
// pods.
func NewPolicy(total, critical time.Duration) Policy {
	if total <= 0 {
		return nil
	}
	return Policy{{Priority: 0, Period: total - critical}, {Priority: CriticalPriority, Period: critical}}
}

// Sorted returns the policy by ascending priority.
func (p Policy) Sorted() Policy {
	p = slices.Clone(p)
	slices.SortFunc(p, func(a, b Group) int { return cmp.Compare(a.Priority, b.Priority) })
	return p
}

// Total returns how long all groups may take.
func (p Policy) Total() (total time.Duration) {
	for _, g := range p {
		total += g.Period
	}
	return total
}

// group returns the index of a priority's group.
func (p Policy) group(priority int32) int {
	for i := len(p) - 1; i > 0; i-- {
		if p[i].Priority <= priority {
			return i
		}
	}
	return 0
}
