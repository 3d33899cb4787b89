package rollout

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

// preparation is the preparation of a candidate.
type preparation struct {
	cancel context.CancelFunc
	// queued: the first attempt has not begun.
	queued bool
	// running: an attempt is in progress. Otherwise the next one is at retryAt.
	running bool
	retryAt time.Time
	// again: something changed during the attempt that the candidate may wait for.
	again bool
	// backoff is the wait after the last attempt that had none of its own.
	backoff time.Duration
	// prepared: the candidate waits only for its source to confirm it, and for its turn.
	prepared bool
	// cause is what the candidate waits for; empty if there was nothing to report.
	cause status.Cause
	// notified: the candidate is prepared again when what it waits for changes.
	notified bool
	// warned is the message of the last event.
	warned string
}

// result is an attempt that has ended.
type result struct {
	rollout     *podRollout
	preparation *preparation
	// cause is nil if the candidate is prepared.
	cause *status.Cause
	after time.Duration
}

// state returns how far the preparation is, and what it waits for or why it failed. It is nil for one
// that has not begun. The Controller's mu is held.
func (p *preparation) state() (state api.CandidateState, message string) {
	switch {
	case p == nil || p.cause.Message == "":
		return api.CandidatePreparing, ""
	case p.cause.Reason == "": // such as the pull in progress
		state = api.CandidatePreparing
	case p.notified:
		state = api.CandidateWaiting
	default:
		state = api.CandidateFailed
	}
	return state, joined(p.cause.Reason, p.cause.Message)
}

// Notified is the wait of a candidate that is prepared again only on RetryPreparations.
const Notified time.Duration = -1

const (
	// minRetry is the least time between two attempts.
	minRetry = time.Second
	// The back-off is that of image pulls.
	minBackoff = 10 * time.Second
	maxBackoff = 5 * time.Minute
)

// schedule sets the time of the next attempt after one that failed. Zero for after is
// the back-off.
func (p *preparation) schedule(now time.Time, after time.Duration) {
	again := p.again
	p.again = false
	switch {
	case again:
		p.backoff = 0
		p.retryAt = now.Add(minRetry)
	case after == Notified:
		p.retryAt = time.Time{}
	case after == 0:
		p.backoff = min(max(2*p.backoff, minBackoff), maxBackoff)
		p.retryAt = now.Add(p.backoff)
	default:
		p.retryAt = now.Add(max(after, minRetry))
	}
}

// reasonBackOff is the reason of an image whose pull is in back-off. It only repeats
// the error of the last attempt.
const reasonBackOff = "ImagePullBackOff"

// startPreparations starts those that are queued.
func (c *Controller) startPreparations() {
	for _, r := range c.loop.unprepared {
		if p := r.preparation; p != nil && p.queued {
			c.prepare(r)
		}
	}
	c.loop.unprepared = nil
}

// prepare starts an attempt to prepare the candidate.
func (c *Controller) prepare(r *podRollout) {
	ctx, cancel := context.WithCancel(c.loop.ctx)
	p := r.preparation
	p.queued = false
	p.cancel, p.running, p.retryAt = cancel, true, time.Time{}
	pod, replaced, node := r.candidate.pod, r.current.pod, c.loop.node
	c.loop.wg.Go(func() {
		defer cancel()
		cause, after := node.Prepare(ctx, pod, replaced, func(waiting status.Cause) {
			c.locked(func() { p.cause = waiting })
			c.subscribers.Notify()
		})
		select {
		case c.results <- result{r, p, cause, after}:
		case <-c.loop.ctx.Done():
		}
	})
}

// cancelPreparation ends the preparation of the candidate, if there is one. next is the
// revision that is to be in effect, nil if none is.
func (c *Controller) cancelPreparation(r *podRollout, next *revision) {
	if p := r.preparation; p != nil && p.cancel != nil {
		p.cancel()
	}
	if r.candidate != nil {
		uid := r.candidate.pod.UID
		if uid != r.current.pod.UID && (next == nil || uid != next.pod.UID) {
			c.loop.node.ForgetPrepared(uid) // it never starts
		}
	}
	c.locked(func() { r.preparation, r.candidate = nil, nil })
}

// handleResult notes that a candidate is prepared, or shows what it waits for.
func (c *Controller) handleResult(res result) {
	r, p := res.rollout, res.preparation
	if r.preparation != p {
		return // it was superseded
	}
	p.running = false
	if res.cause == nil {
		p.prepared = true
		c.loop.prepared = append(c.loop.prepared, r)
		return
	}
	c.hold(r, res.cause, res.after)
}

// switchPrepared lets the next candidate through that is prepared. The supervisor has taken
// the queue, so that admission is judged with the candidates before it: those that are
// prepared reserve nothing.
func (c *Controller) switchPrepared() {
	for len(c.loop.prepared) > 0 && len(c.loop.queue) == 0 {
		r := c.loop.prepared[0]
		c.loop.prepared = c.loop.prepared[1:]
		p := r.preparation
		if p == nil || !p.prepared || !c.confirmed(r) {
			continue // it was superseded, or releaseConfirmed adds it again
		}
		p.prepared = false
		cause, after := c.loop.node.Recheck(r.candidate.pod, r.current.pod)
		if cause != nil || c.loop.node.ShuttingDown() {
			c.hold(r, cause, after)
			continue
		}
		c.log.Info("Revision of pod is prepared", "pod", r.name, "uid", r.candidate.pod.UID, "revision", r.candidate.id)
		c.release(r, r.candidate, nil)
		// When the supervisor takes this, it has handled the updates before it.
		c.enqueue(manifest.PodUpdate{Op: manifest.Update, Source: r.current.source()})
	}
}

// hold schedules the next attempt, and shows what the candidate waits for; a nil cause, or
// one without a message, is not shown.
func (c *Controller) hold(r *podRollout, why *status.Cause, after time.Duration) {
	p := r.preparation
	p.schedule(time.Now(), after)
	if why == nil || why.Message == "" {
		return
	}
	cause := *why
	c.locked(func() { p.cause, p.notified = cause, after == Notified })
	if cause.Reason != reasonBackOff && cause.Message != p.warned {
		p.warned = cause.Message
		c.log.Warn("Failed to prepare revision of pod, the running one stays", "pod", r.name, "revision", r.candidate.id,
			"reason", cause.Reason, "err", cause.Message)
		c.opts.Events.Event(r.current.pod, v1.EventTypeWarning, ReasonPreparing, fmt.Sprintf(
			"Revision %s is not in effect yet: %s", r.candidate.id, cause.Message))
	}
	c.subscribers.Notify()
}

// confirmed reports whether the candidate may end what runs: a revision of the manifest
// may once its source has delivered, or was read as far as this manifest is concerned: a
// source of several artifacts may never be complete. Until then it comes from the
// checkpoint, and the manifest may have been removed or changed in the meantime.
func (c *Controller) confirmed(r *podRollout) bool {
	return r.choice.pinned != nil || r.choice.rejected != nil || c.loop.delivered[podinfo.SourceOf(r.manifest)] ||
		c.opts.Pods.WasRead(r.manifest.UID)
}

// releaseConfirmed lets the prepared candidates through, in turn, that are confirmed now.
func (c *Controller) releaseConfirmed() {
	for _, r := range c.byName {
		if p := r.preparation; p != nil && p.prepared && c.confirmed(r) {
			c.loop.prepared = append(c.loop.prepared, r)
		}
	}
}

// retryDue starts the attempts that are due.
func (c *Controller) retryDue(now time.Time) {
	for _, r := range c.byName {
		if p := r.preparation; r.awaitsRetry() && !p.retryAt.IsZero() && !p.retryAt.After(now) {
			c.prepare(r)
		}
	}
}

// retryAll starts an attempt for each candidate that waits, and another one after those
// in progress, which may have looked before the change.
func (c *Controller) retryAll() {
	for _, r := range c.byName {
		if p := r.preparation; r.awaitsRetry() {
			p.backoff = 0
			c.prepare(r)
		} else if p != nil {
			p.again = p.running
		}
	}
}

// awaitsRetry reports whether an attempt to prepare the candidate has failed, and the
// next one has not begun.
func (r *podRollout) awaitsRetry() bool {
	p := r.preparation
	return p != nil && !p.running && !p.queued && !p.prepared && r.candidate != nil
}
