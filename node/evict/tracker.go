package evict

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Tracker keeps which thresholds are crossed since when, and the conditions that
// follow from it. It is pure: all it knows of time it is told.
type Tracker struct {
	thresholds []Threshold
	transition time.Duration
	crossed    []crossing // by threshold
	pressures  [3]pressure
}

// crossing is how long a threshold has been crossed.
type crossing struct {
	since time.Time // zero if it is not
	// active: for long enough, so that min reclaim holds.
	active bool
}

// pressure is one condition of the node.
type pressure struct {
	on bool
	// seen is when it was last there, changed when on last changed.
	lastSeen, changed time.Time
}

// NewTracker tracks thresholds. A condition goes off when nothing has spoken for
// it for the transition time.
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

// Begin says that a condition is on, as an earlier daemon left it.
func (t *Tracker) Restore(c v1.NodeConditionType, now time.Time) {
	if i := indexOf(c); i >= 0 {
		t.pressures[i] = pressure{on: true, lastSeen: now, changed: now}
	}
}

// Observe takes in what is left of everything and reports whether a condition
// changed. What is not known changes nothing.
func (t *Tracker) Observe(levels *Levels, now time.Time) (changed bool) {
	for i := range t.thresholds {
		th, c := &t.thresholds[i], &t.crossed[i]
		level := levels[th.Signal]
		if level.Capacity == 0 {
			continue
		}
		least := th.Min.Of(level.Capacity)
		if c.active {
			least += th.Reclaim.Of(level.Capacity)
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

// Active is the threshold to be relieved first, nil if there is none.
func (t *Tracker) Active() *Threshold {
	for i := range t.crossed {
		if t.crossed[i].active {
			return &t.thresholds[i]
		}
	}
	return nil
}

// Under reports whether a condition of the node is on.
func (t *Tracker) Under(c v1.NodeConditionType) bool {
	i := indexOf(c)
	return i >= 0 && t.pressures[i].on
}

// Changed is when a condition last changed, zero if it never did.
func (t *Tracker) Changed(c v1.NodeConditionType) time.Time {
	if i := indexOf(c); i >= 0 {
		return t.pressures[i].changed
	}
	return time.Time{}
}

// Next is after how long something changes although the levels do not, 0 if
// never: a grace period ends, or a condition.
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

// Margin is how much more of a signal may go before a threshold that is not yet
// crossed is, and whether there is one.
func (t *Tracker) Margin(levels *Levels, s Signal) (margin int64, ok bool) {
	for i := range t.thresholds {
		th := &t.thresholds[i]
		if th.Signal != s || levels[s].Capacity == 0 {
			continue
		}
		if m := levels[s].Available - th.Min.Of(levels[s].Capacity); m >= 0 && (!ok || m < margin) {
			margin, ok = m, true
		}
	}
	return margin, ok
}

// Watches reports whether there is a threshold for a signal.
func (t *Tracker) HasThreshold(s Signal) bool {
	return slices.ContainsFunc(t.thresholds, func(th Threshold) bool { return th.Signal == s })
}
