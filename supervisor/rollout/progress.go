package rollout

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/supervisor/podorder"
	"github.com/podstead/podstead/supervisor/status"
)

// evaluate decides about all rollouts whose pods have a new status, or whose deadline
// has passed.
func (c *Controller) evaluate() {
	for _, r := range c.byName {
		c.mu.Lock()
		st, at := r.status, c.provenAt(r)
		c.mu.Unlock()
		if st == nil {
			continue
		}
		if !at.IsZero() && !at.After(time.Now()) {
			c.markGood(r)
		}
		switch r.state {
		case Preparing, RollingBack:
			if r.candidate != nil && !isWorthKeeping(st, r.good) && !c.loop.node.ShuttingDown() {
				c.log.Info("Running revision of pod has ended, the next one is not prepared", "pod", r.name, "revision",
					r.candidate.id)
				c.release(r, r.candidate, nil)
			}
		case Progressing, RolledBack:
			c.judge(r, st)
		}
	}
}

// markGood notes that the revision in effect was Ready.
func (c *Controller) markGood(r *podRollout) {
	c.locked(func() { r.setGood() })
	c.settle(r)
	c.save(r, later)
	c.subscribers.Notify()
}

// judge fails a revision that does not become Ready.
func (c *Controller) judge(r *podRollout, st *v1.PodStatus) {
	after := c.rollbackAfter(r)
	if r.good || after == 0 || r.stuck != nil || r.state == Progressing && !c.judged(r) {
		return
	}
	if st.StartTime == nil {
		return // it waits for its predecessor
	}
	if c.loop.node.ShuttingDown() {
		return
	}
	if waits := podorder.Waits(st); waits || isDisrupted(st) || c.loop.node.RuntimeAway() {
		// Its time begins, or begins again, when those are Ready that it depends on, and when
		// the node lets it run.
		if r.begun != nil && !r.begun.Time.IsZero() {
			begun := &beginning{Boots: r.begun.Boots, Restarts: r.begun.Restarts}
			if !waits {
				begun.Mark = r.begun.Mark // a boot counts
			}
			c.locked(func() { r.begun = begun })
		}
		return
	}
	if r.begun == nil || r.begun.Time.IsZero() {
		c.noteBegin(r)
	}
	cause := failureOf(st, r.begun.Restarts)
	c.mu.Lock()
	proving, deadline := !r.readyAt.IsZero(), c.deadline(r)
	c.mu.Unlock()
	switch {
	case cause != nil && cause.Reason == ReasonCrashLoop:
		// Its liveness or startup probe may be what ended it.
		if probe := c.lastProbeFailure(r); probe != "" && !strings.HasPrefix(probe, "Readiness") {
			cause.Message += "; " + probe
		}
	case cause != nil:
	case r.begun.Boots >= maxBoots:
		cause = &status.Cause{Reason: ReasonDeadline,
			Message: fmt.Sprintf("the host booted %d times before it was Ready%s", r.begun.Boots,
				explained(st, c.lastProbeFailure(r)))}
	case proving: // it was Ready, and is on trial
	case !deadline.After(time.Now()):
		cause = &status.Cause{Reason: ReasonDeadline,
			Message: fmt.Sprintf("it was not Ready within %s%s", after, explained(st, c.lastProbeFailure(r)))}
	}
	if cause != nil {
		c.fail(r, *cause)
	}
}

// noteBegin records that the revision in effect begins to start.
func (c *Controller) noteBegin(r *podRollout) {
	begun := beginning{Time: time.Now().Round(0)}
	if r.begun != nil {
		begun.Restarts, begun.Boots = r.begun.Restarts, r.begun.Boots
	}
	if mark, ok := c.opts.Mark(); ok {
		begun.Mark = &mark
	}
	c.locked(func() { r.begun = &begun })
	c.save(r, now)
}

// fail rejects the revision in effect, and prepares the last good one. A rollback that
// fails stays.
func (c *Controller) fail(r *podRollout, cause status.Cause) {
	if r.state == RolledBack {
		c.locked(func() { r.stuck = &cause })
		c.log.Warn("Pod was rolled back and is not Ready either", "pod", r.name, "revision", r.current.id, "reason",
			cause.Reason, "err", cause.Message)
		c.opts.Events.Event(r.current.pod, v1.EventTypeWarning, ReasonRolledBack, fmt.Sprintf(
			"Revision %s, to which the pod was rolled back, is not Ready either: %s; it stays until the manifest changes",
			r.current.id, cause.Message))
		c.move(r, onFailed)
		c.save(r, later)
		c.subscribers.Notify()
		return
	}
	c.locked(func() {
		r.choice.rejected = &rejection{Revision: r.current.id, Cause: cause, Time: time.Now(), After: c.rollbackAfter(r)}
		r.choice.pinned = nil
		r.history = r.history.mark(r.current.id, func(e *entry) { e.Rejected = cause.Message })
	})
	c.log.Warn("Revision of pod failed, rolling back", "pod", r.name, "revision", r.current.id, "to", r.lastGood.id,
		"reason", cause.Reason, "err", cause.Message)
	c.opts.Events.Event(r.current.pod, v1.EventTypeWarning, cause.Reason, fmt.Sprintf(
		"Revision %s failed: %s; rolling back to revision %s", r.current.id, cause.Message, r.lastGood.id))
	// Stored before the act, so that no restart of the daemon tries it again.
	c.save(r, durably)
	c.choose(r, nil)
	c.subscribers.Notify()
}

// deadline returns when the revision in effect fails unless it is Ready; zero for none. mu is
// held.
func (c *Controller) deadline(r *podRollout) time.Time {
	after := c.rollbackAfter(r)
	if r.begun == nil || r.begun.Time.IsZero() || r.good || after == 0 || r.stuck != nil {
		return time.Time{}
	}
	if r.state != RolledBack && (r.state != Progressing || !c.judged(r)) {
		return time.Time{}
	}
	now := time.Now()
	mark, known := c.opts.Mark()
	at := now.Add(after - wallclock.Passed(r.begun.Time, r.begun.Mark, now, mark, known))
	if first := r.seenAt; !first.IsZero() && at.Before(first.Add(probeTime(r.current.pod))) {
		return first.Add(probeTime(r.current.pod))
	}
	return at
}

// dueAt returns when the loop has to evaluate a rollout again; zero for never.
func (c *Controller) dueAt(r *podRollout) time.Time {
	c.mu.Lock()
	proven, started := c.provenAt(r), r.status != nil && r.status.StartTime != nil
	c.mu.Unlock()
	switch p := r.preparation; {
	case p != nil && (proven.IsZero() || !p.retryAt.IsZero() && p.retryAt.Before(proven)):
		return p.retryAt
	case !proven.IsZero():
		return proven
	case !started || c.loop.node.ShuttingDown() || c.loop.node.RuntimeAway():
		return time.Time{} // Observe notifies
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadline(r)
}
