package rollout

import (
	"path/filepath"
	"strings"
	"time"
)

// flushRetry is the time before a failed write is tried again.
const flushRetry = 10 * time.Second

// save stores a rollout. An act does not wait for a write that fails: a pod that does
// not run is worse than a rollout that is forgotten.
func (c *Controller) save(r *podRollout, mode writeMode) {
	if mode == later {
		c.loop.dirty[r.name] = true
		c.flushIn(flushDelay)
		return
	}
	err := c.store.write(r.name, c.stored(r), r.revisions(), mode)
	c.reportWrite(r, err)
	if mode == now || err != nil {
		// What is written is not on the disk yet.
		c.loop.dirty[r.name] = true
		c.flushIn(flushDelay)
	}
}

// flushIn requests a round of writes, unless an earlier one is due.
func (c *Controller) flushIn(d time.Duration) {
	if at := time.Now().Add(d); c.loop.flushAt.IsZero() || at.Before(c.loop.flushAt) {
		c.loop.flushAt = at
	}
}

// flush writes what is dirty, and brings it to the disk in the background.
func (c *Controller) flush() {
	c.loop.flushAt = time.Time{}
	var names []string
	for name := range c.loop.dirty {
		r := c.byName[name]
		if r == nil {
			delete(c.loop.dirty, name)
			continue
		}
		err := c.store.write(name, c.stored(r), r.revisions(), now)
		c.reportWrite(r, err)
		if err != nil {
			continue // stays dirty
		}
		delete(c.loop.dirty, name)
		c.store.trim(name, r.history, r.keepsRevisions())
		names = append(names, name)
	}
	if len(c.loop.dirty) > 0 {
		c.flushIn(flushRetry)
	}
	if len(names) > 0 {
		c.loop.wg.Go(func() {
			for _, name := range names {
				c.store.sync(name)
			}
		})
	}
}

// reportWrite reports the result of a write to the node's condition.
func (c *Controller) reportWrite(r *podRollout, err error) {
	c.opts.Disk.Unwritten.Report(filepath.Join(c.store.path(r.name), stateFile), err)
	if err != nil {
		c.log.Debug("Failed to store the rollout of a pod, retrying", "pod", r.name, "err", err)
	}
}

// revisions returns the revisions in memory, which are to be in files.
func (r *podRollout) revisions() []*revision {
	list := []*revision{r.current}
	for _, other := range []*revision{r.lastGood, r.choice.pinned} {
		if other != nil && other.id != r.current.id {
			list = append(list, other)
		}
	}
	return list
}

// stored returns the state of a rollout as it is stored.
func (c *Controller) stored(r *podRollout) *storedRollout {
	s := &storedRollout{
		Version: storeVersion, Source: r.current.source(), State: r.state, Since: r.since,
		Manifest: revisionID(r.manifest), Current: r.current.id, Good: r.good, Rejected: r.choice.rejected,
		Images: r.choice.images, Previous: r.choice.previous, Begun: r.begun, History: r.history,
	}
	s.Namespace, s.Name, _ = strings.Cut(r.name, "/")
	if r.lastGood != nil {
		s.LastGood = r.lastGood.id
	}
	if r.choice.pinned != nil {
		s.Pinned = r.choice.pinned.id
	}
	return s
}

// restore takes over what an earlier daemon stored about a pod. What runs then stays in
// effect, although the manifest may have changed in the meantime.
func (c *Controller) restore(r *podRollout, s *storedRollout) {
	r.since, r.history = s.Since, s.History
	declared := newRevision(r.manifest)
	if s.Manifest == declared.id {
		r.choice.rejected, r.choice.images, r.choice.previous = s.Rejected, s.Images, s.Previous
		if s.Pinned != "" {
			r.choice.pinned = c.restoredRevision(r, s.Pinned)
		}
	}
	if s.LastGood != "" {
		r.lastGood = c.restoredRevision(r, s.LastGood)
	}
	want := c.desired(r)
	current := want
	if s.Current != want.id {
		current = c.restoredRevision(r, s.Current)
	}
	if current == nil || current != want && !c.stays(current, want) {
		// The daemon was killed after it let the desired revision through, or its state was
		// lost in part: the newest one it is.
		if r.history.index(want.id) < 0 {
			r.history = r.history.withRevision(want, time.Now())
		}
		r.current, r.state, r.since = want, Progressing, time.Now()
		return
	}
	if r.choice.rejected != nil && want == r.lastGood && current != want && c.bootedSince(s.Begun) {
		c.restoreRollback(r, current)
		return
	}
	r.current, r.good, r.begun, r.returned = current, s.Good, s.Begun, true
	if r.good {
		r.lastGood = current
	}
	switch s.State {
	case Stable, RolledBack, Undone:
		r.state = s.State
	default:
		r.state = Progressing
	}
	if s.Manifest != declared.id && r.state != Stable {
		r.state = Progressing // the manifest has changed
	}
	c.restoreBegin(r)
}

// restoreRollback ends a rollback that a boot of the host has interrupted. Nothing of the failed
// revision runs that would be worth keeping until the last good one is prepared, and to start it
// once more may make the host boot again.
func (c *Controller) restoreRollback(r *podRollout, failed *revision) {
	r.current, r.state, r.since = r.lastGood, RolledBack, time.Now()
	r.history = r.history.withRevision(r.current, r.since, r.keepsRevisions()...)
	// Stored before the act.
	c.save(r, durably)
	c.reportRollback(r, failed)
}

// bootedSince reports whether the host has booted since a revision began to start.
func (c *Controller) bootedSince(begun *beginning) bool {
	mark, known := c.opts.Mark()
	return begun != nil && begun.Mark != nil && known && begun.Mark.Boot != mark.Boot
}

// restoreBegin restarts the time of a revision that was not Ready after a boot of the host, since
// its pod starts again. It counts the boot on the disk: the revision may be the cause.
func (c *Controller) restoreBegin(r *podRollout) {
	if r.good || !c.bootedSince(r.begun) {
		return
	}
	mark, _ := c.opts.Mark()
	r.begun = &beginning{Time: time.Now().Round(0), Mark: &mark, Boots: r.begun.Boots + 1, Restarts: r.begun.Restarts}
	c.save(r, durably)
}

// stays reports whether the revision that was in effect is to be adopted while the
// desired one is prepared.
func (c *Controller) stays(current, want *revision) bool {
	if replacesAtOnce(want) {
		return false
	}
	started := c.opts.Started
	return started == nil || current.pod.UID == want.pod.UID || started(current.pod.UID) || !started(want.pod.UID)
}

// restoredRevision reads a revision; nil if it cannot be read.
func (c *Controller) restoredRevision(r *podRollout, id string) *revision {
	e := entry{Revision: id}
	if i := r.history.index(id); i >= 0 {
		e = r.history[i]
	}
	found, err := c.store.revision(r.name, e)
	if err != nil {
		c.log.Warn("Failed to restore revision of pod", "pod", r.name, "err", err)
		return nil
	}
	return found
}
