package rollout

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

// podRollout is the rollout of one pod. The loop alone writes it, and reads it without the
// lock, except seen and status, which Observe writes; what others read, it writes with the lock.
type podRollout struct {
	name string
	// manifest is the newest revision of the manifest. awaitsPod: the manifests have
	// removed it, and are going to add another one.
	manifest  *v1.Pod
	awaitsPod bool
	state     State
	since     time.Time
	// current is the revision that the supervisor has, candidate the one that is
	// prepared; nil for none.
	current, candidate *revision
	preparation        *preparation
	choice             choice
	progress
	history history
}

// choice is why another revision than the manifest's is to be in effect. The zero value
// is the manifest's. An edit of the manifest resets it.
type choice struct {
	// pinned is the revision that a request chose; nil for none.
	pinned *revision
	// rejected is the revision that failed; nil for none.
	rejected *rejection
	// images are those of SetImages, by container, and previous the exact ones before that,
	// if they are known.
	images, previous map[string]string
}

// rejection is a revision that was rolled back, or is to be.
type rejection struct {
	Revision string       `json:"revision"`
	Cause    status.Cause `json:"cause"`
	Time     time.Time    `json:"time"`
	// After is the time that the revision had.
	After time.Duration `json:"after,omitempty"`
}

// progress is how the revision in effect is judged.
type progress struct {
	// good: the revision was Ready, or has succeeded. What Observe saw of that is in seen.
	good bool
	seen
	// status is the newest one that was published, nil for none yet.
	status *v1.PodStatus
	// begun is when the revision began to start; nil before.
	begun *beginning
	// lastGood is the last revision that was good, which can be current; nil for none.
	lastGood *revision
	// replaced: the revision replaced another one, and its rollout has not ended.
	replaced bool
	// stuck is why a rollback did not help.
	stuck *status.Cause
}

// beginning is when a revision began to start. It outlives the daemon.
type beginning struct {
	Time time.Time       `json:"time"`
	Mark *wallclock.Mark `json:"mark,omitempty"`
	// Boots counts the boots of the host since then.
	Boots int `json:"boots,omitempty"`
	// Restarts is the restart count of the pod's containers at that time.
	Restarts int32 `json:"restarts,omitempty"`
}

// maxBoots is how many boots a revision may take to become Ready: one that makes the
// host reboot never reaches a deadline.
const maxBoots = 3

// move applies a trigger and reports whether the table has it for the state.
func (c *Controller) move(r *podRollout, on trigger) bool {
	to, ok := next(r.state, on)
	if !ok {
		c.log.Debug("Ignoring trigger of rollout", "pod", r.name, "state", r.state, "trigger", on)
		return false
	}
	c.log.Debug("Rollout changed", "pod", r.name, "from", r.state, "trigger", on, "to", to)
	c.locked(func() {
		if to != r.state {
			r.since = time.Now()
		}
		r.state = to
	})
	return true
}

// desired returns the revision that is to be in effect.
func (c *Controller) desired(r *podRollout) *revision {
	if r.choice.pinned != nil {
		return r.choice.pinned
	}
	want := newRevision(r.manifest)
	if len(r.choice.images) > 0 {
		want = withImages(r.manifest, r.choice.images)
	}
	if rejected := r.choice.rejected; rejected != nil && rejected.Revision == want.id && r.lastGood != nil {
		return r.lastGood
	}
	return want
}

// choose makes the desired revision come into effect: it is in effect already, or it is let
// through, or it is prepared. What is let through is added to the update,
// which may be nil.
func (c *Controller) choose(r *podRollout, passed *manifest.PodUpdate) {
	want := c.desired(r)
	switch {
	case want.id == r.current.id || sameInstance(r.current.pod, want.pod):
		c.keepRunning(r, want)
	case r.candidate != nil && r.candidate.id == want.id:
		// It is prepared already; only its object is another one.
		c.locked(func() { r.candidate = want })
	default:
		c.begin(r, want, passed)
	}
}

// keepRunning leaves the running pod as it is, or updates it in place.
func (c *Controller) keepRunning(r *podRollout, want *revision) {
	c.cancelPreparation(r, want)
	before := r.current
	if before.pod != want.pod {
		c.mu.Lock()
		c.dropUID(r)
		r.current = want
		c.byUID[want.pod.UID] = r
		if r.lastGood != nil && r.lastGood.id == before.id {
			r.lastGood = want
		}
		c.mu.Unlock()
		c.enqueue(manifest.PodUpdate{Op: manifest.Update, Source: want.source(), Pods: []*v1.Pod{want.pod}})
	}
	if before.id != want.id {
		c.locked(func() {
			r.history = r.history.withRevision(want, time.Now(), r.keepsRevisions()...)
			if r.good {
				r.history = r.history.mark(want.id, func(e *entry) { e.Ready = true })
			}
		})
	}
	changed := r.state != Stable || before.id != want.id
	c.move(r, onRevert)
	c.settle(r)
	if changed {
		c.save(r, later)
	}
}

// begin prepares a revision, or lets it through if there is nothing to wait for.
func (c *Controller) begin(r *podRollout, want *revision, passed *manifest.PodUpdate) {
	c.cancelPreparation(r, want)
	on := onChoose
	if r.choice.rejected != nil && r.choice.pinned == nil && want == r.lastGood {
		on = onFailed
	}
	if !c.move(r, on) {
		c.move(r, onChoose)
	}
	c.locked(func() { r.candidate = want })
	if replacesAtOnce(want) || !c.worthKeeping(r) {
		c.release(r, want, passed)
		return
	}
	c.log.Info("Preparing revision of pod, the running one stays until then", "pod", r.name, "uid", want.pod.UID,
		"revision", want.id)
	// A daemon that does not find what runs would let the desired revision through.
	c.save(r, now)
	p := &preparation{queued: true}
	c.locked(func() { r.preparation = p })
	c.loop.unprepared = append(c.loop.unprepared, r)
}

// replacesAtOnce reports whether a revision is not prepared, as at the kubelet.
func replacesAtOnce(r *revision) bool {
	return r.pod.Annotations[podinfo.AnnotationReplace] == podinfo.ReplaceKubelet
}

// worthKeeping reports whether the pod stays while its replacement is prepared.
func (c *Controller) worthKeeping(r *podRollout) bool {
	c.mu.Lock()
	st, good := r.status, r.good || !r.readyAt.IsZero()
	c.mu.Unlock()
	return isWorthKeeping(st, good)
}

// release lets a revision come into effect in place of the current one, whose end it
// orders.
func (c *Controller) release(r *podRollout, want *revision, passed *manifest.PodUpdate) {
	c.cancelPreparation(r, want)
	before := r.current
	sameUID := before.pod.UID == want.pod.UID
	if !sameUID {
		// First of all: another pod may take this UID.
		c.enqueue(replacedBy(before.pod))
		c.locked(func() { c.dropUID(r) })
	}
	c.dislodge(want.pod.UID, r.name)
	rolledBack := r.state == RollingBack
	c.mu.Lock()
	if c.onTrial(r) && !rolledBack && !r.readyAt.IsZero() && r.failures == 0 {
		r.setGood() // it worked until it was edited
	}
	c.dropUID(r)
	lastGood, restarts := r.lastGood, int32(0)
	if exact := r.exactRevision(want); exact != nil {
		lastGood = exact
	}
	if sameUID {
		restarts = restartsOf(r.status)
	}
	r.current, r.candidate = want, nil
	r.progress = progress{lastGood: lastGood, replaced: true}
	if restarts > 0 {
		r.begun = &beginning{Restarts: restarts}
	}
	c.byUID[want.pod.UID] = r
	r.history = r.history.withRevision(want, time.Now(), r.keepsRevisions()...)
	c.mu.Unlock()
	c.move(r, onPrepared)
	// Stored before the act: from here on the predecessor must not come back.
	if rolledBack || r.choice.pinned != nil {
		c.save(r, durably)
	} else {
		c.save(r, now)
	}
	if sameUID {
		c.enqueue(manifest.PodUpdate{Op: manifest.Update, Source: want.source(), Pods: []*v1.Pod{want.pod}})
	} else {
		c.pass(want.pod, passed)
	}
	if rolledBack {
		c.reportRollback(r, before)
	}
	c.settle(r)
	c.subscribers.Notify()
}

// reportRollback reports that the last good revision replaces the one that failed.
func (c *Controller) reportRollback(r *podRollout, failed *revision) {
	cause := status.Cause{}
	if r.choice.rejected != nil {
		cause = r.choice.rejected.Cause
	}
	c.log.Warn("Pod rolled back", "pod", r.name, "revision", r.current.id, "failed", failed.id, "reason", cause.Reason,
		"err", cause.Message)
	c.opts.Events.Event(r.current.pod, v1.EventTypeWarning, ReasonRolledBack, fmt.Sprintf(
		"Rolled back to revision %s, because revision %s failed: %s", r.current.id, failed.id, cause.Message))
	c.reportEnd(ResultRolledBack)
}

// reportEnd counts a rollout that has ended.
func (c *Controller) reportEnd(result string) {
	if c.opts.Ended != nil {
		c.opts.Ended(result)
	}
}

// settle ends the progress of a revision that is good, or that nothing judges.
func (c *Controller) settle(r *podRollout) {
	if r.good {
		c.locked(func() { r.lastGood = r.current })
	}
	if r.state != Progressing || c.judged(r) {
		return
	}
	if r.choice.pinned != nil && r.choice.pinned.id == r.current.id {
		c.move(r, onPinned)
	} else {
		c.move(r, onSettled)
	}
	if r.replaced {
		c.locked(func() { r.replaced = false })
		c.reportEnd(ResultCompleted)
	}
}

// judged reports whether the revision in effect is rolled back unless it becomes Ready.
func (c *Controller) judged(r *podRollout) bool {
	return !r.good && r.choice.pinned == nil && c.rollbackAfter(r) > 0 && r.lastGood != nil &&
		r.lastGood.id != r.current.id
}

// imageRollbackAfter is how long a revision may take that differs from its manifest in
// images, if neither its annotation nor the node's default asks for it: no user watches it.
const imageRollbackAfter = 5 * time.Minute

// rollbackAfter returns how long the revision in effect may take to become Ready; 0 is
// without limit.
func (c *Controller) rollbackAfter(r *podRollout) time.Duration {
	if after, set, err := podinfo.RollbackAfter(r.current.pod); err == nil && set {
		return after
	}
	if r.state == RolledBack && r.choice.rejected != nil {
		return r.choice.rejected.After
	}
	if len(r.current.images) > 0 && c.opts.RollbackAfter == 0 {
		return imageRollbackAfter
	}
	return c.opts.RollbackAfter
}

// keepsRevisions returns the revisions that the history must keep.
func (r *podRollout) keepsRevisions() (ids []string) {
	for _, revision := range []*revision{r.current, r.lastGood, r.choice.pinned} {
		if revision != nil {
			ids = append(ids, revision.id)
		}
	}
	return ids
}
