package shutdown

import (
	"slices"
	"time"
)

// Group are the pods from a priority up to that of the next group. The first
// group has those of less priority too.
type Group struct {
	Priority int32
	// Period is how long the group may take to end. One that has ended earlier
	// is not waited for.
	Period time.Duration
}

// Policy are the groups by ascending priority. An empty one lets the host go
// down as it likes.
type Policy []Group

// CriticalPriority is the least one of a critical pod, as at the kubelet: that
// of the class system-cluster-critical.
const CriticalPriority = 2_000_000_000

// TwoGroups are the groups of a total and of the part of it that is kept for
// critical pods.
func NewPolicy(total, critical time.Duration) Policy {
	if total <= 0 {
		return nil
	}
	return Policy{{Priority: 0, Period: total - critical}, {Priority: CriticalPriority, Period: critical}}
}

// Sorted is the policy by ascending priority.
func (p Policy) Sorted() Policy {
	p = slices.Clone(p)
	slices.SortFunc(p, func(a, b Group) int { return int(int64(a.Priority) - int64(b.Priority)) })
	return p
}

// Total is how long all groups may take.
func (p Policy) Total() (total time.Duration) {
	for _, g := range p {
		total += g.Period
	}
	return total
}

// group is the index of a priority's group.
func (p Policy) group(priority int32) int {
	for i := len(p) - 1; i > 0; i-- {
		if p[i].Priority <= priority {
			return i
		}
	}
	return 0
}
