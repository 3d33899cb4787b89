package evict

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Tracker tracks since when each threshold is met, and the node conditions that
// follow. It is pure: callers pass the time.
type Tracker struct {
	thresholds []Threshold
	transition time.Duration
	crossed    []crossing // by threshold
	pressures  [3]pressure
}

// crossing is since when a threshold is met.
type crossing struct {
	since time.Time // zero if it is not
	// active reports that the grace period is over, so that the minimum reclaim
	// applies.
	active bool
}

// pressure is one node condition.
type pressure struct {
	on bool
	// lastSeen is when a threshold last was met, changed when on last changed.
	lastSeen, changed time.Time
}

// NewTracker tracks thresholds. A condition clears when no threshold has been met
// for the transition period.
func NewTracker(thresholds []Threshold, transition time.Duration) *Tracker {
	list := slices.Clone(thresholds)
	slices.SortStableFunc(list, func(a, b Threshold) int {
		switch {
		case a.Signal != b.Signal:
			return int(a.Signal) - int(b.Signal)
		case a.Soft == b.Soft:
			return 0
		case a.Soft:
			return 1
		}
		return -1
	})
	return &Tracker{thresholds: list, transition: transition, crossed: make([]crossing, len(list))}
}

func indexOf(c v1.NodeConditionType) int { return slices.Index(Conditions, c) }

// Restore sets a condition that an earlier daemon left.
func (t *Tracker) Restore(c v1.NodeConditionType, now time.Time) {
	if i := indexOf(c); i >= 0 {
		t.pressures[i] = pressure{on: true, lastSeen: now, changed: now}
	}
}

// Observe takes the current levels and reports whether a condition changed.
// Unknown levels change nothing.
func (t *Tracker) Observe(levels *Levels, now time.Time) (changed bool) {
	for i := range t.thresholds {
		th, c := &t.thresholds[i], &t.crossed[i]
		level := levels[th.Signal]
		if level.Capacity == 0 {
			continue
		}
		least := th.Min.ForCapacity(level.Capacity)
		if c.active {
			least += th.Reclaim.ForCapacity(level.Capacity)
		}
		if level.Available >= least {
			*c = crossing{}
			continue
		}
		if c.since.IsZero() {
			c.since = now
		}
		c.active = now.Sub(c.since) >= th.Grace
		t.pressures[indexOf(th.Signal.Condition())].lastSeen = now
	}
	for i := range t.pressures {
		p := &t.pressures[i]
		on := !p.lastSeen.IsZero() && (p.lastSeen.Equal(now) || now.Sub(p.lastSeen) < t.transition)
		if on != p.on {
			p.on, p.changed, changed = on, now, true
		}
	}
	return changed
}

// Active returns the threshold to be relieved first, nil if there is none.
func (t *Tracker) Active() *Threshold {
	for i := range t.crossed {
		if t.crossed[i].active {
			return &t.thresholds[i]
		}
	}
	return nil
}

// Under reports whether a node condition is set.
func (t *Tracker) Under(c v1.NodeConditionType) bool {
	i := indexOf(c)
	return i >= 0 && t.pressures[i].on
}

// Changed returns when a condition last changed, zero if never.
func (t *Tracker) Changed(c v1.NodeConditionType) time.Time {
	if i := indexOf(c); i >= 0 {
		return t.pressures[i].changed
	}
	return time.Time{}
}

// NextChange returns after how long something changes while the levels stay the
// same, 0 if never: a grace period or a condition ends.
func (t *Tracker) NextChange(now time.Time) (after time.Duration) {
	sooner := func(at time.Time) {
		if d := max(at.Sub(now), time.Millisecond); after == 0 || d < after {
			after = d
		}
	}
	for i := range t.crossed {
		if c := &t.crossed[i]; !c.since.IsZero() && !c.active {
			sooner(c.since.Add(t.thresholds[i].Grace))
		}
	}
	for i := range t.pressures {
		if p := &t.pressures[i]; p.on && p.lastSeen.Before(now) {
			sooner(p.lastSeen.Add(t.transition))
		}
	}
	return after
}

// Margin returns how much more of a signal can be used before the next threshold
// is met, and whether there is such a threshold.
func (t *Tracker) Margin(levels *Levels, s Signal) (margin int64, ok bool) {
	for i := range t.thresholds {
		th := &t.thresholds[i]
		if th.Signal != s || levels[s].Capacity == 0 {
			continue
		}
		if m := levels[s].Available - th.Min.ForCapacity(levels[s].Capacity); m >= 0 && (!ok || m < margin) {
			margin, ok = m, true
		}
	}
	return margin, ok
}

// HasThreshold reports whether there is a threshold for a signal.
func (t *Tracker) HasThreshold(s Signal) bool {
	return slices.ContainsFunc(t.thresholds, func(th Threshold) bool { return th.Signal == s })
}
