package rollout

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podstead/podstead/api"
)

// Errors of requests.
var (
	// ErrUnknownPod: no manifest declares the pod.
	ErrUnknownPod = errors.New("no manifest declares this pod")
	// ErrInEffect and ErrPreparing: the request would change nothing.
	ErrInEffect  = errors.New("it is in effect already")
	ErrPreparing = errors.New("it is being prepared already")
	// ErrRejected: the revision was rolled back.
	ErrRejected = errors.New("it failed and was rolled back")
	// ErrUndone: a request has chosen another revision.
	ErrUndone = errors.New("another revision is in effect on request")
)

// History returns the revision that is prepared, if any, and those of a pod that were in effect, the newest
// first. The name is namespace/name as in the pod, with the node's suffix.
func (c *Controller) History(fullName string) ([]api.RolloutRevision, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.byName[fullName]
	if r == nil {
		return nil, fmt.Errorf("pod %s: %w", fullName, ErrUnknownPod)
	}
	entries := slices.Clone(r.history)
	if r.candidate != nil && entries.index(r.candidate.id) < 0 {
		entries = append(entries, entry{Revision: r.candidate.id, Images: imagesOf(r.candidate.pod)})
	}
	declared := revisionID(r.manifest)
	list := make([]api.RolloutRevision, 0, len(entries))
	for _, e := range slices.Backward(entries) {
		revision := api.RolloutRevision{
			Revision: e.Revision, Time: e.Time, Ready: e.Ready, Rejected: e.Rejected, Images: maps.Clone(e.Images),
			InEffect: e.Revision == r.current.id, InManifest: e.Revision == declared,
		}
		if r.candidate != nil && e.Revision == r.candidate.id {
			revision.Candidate, revision.Message = r.preparation.state()
		}
		list = append(list, revision)
	}
	return list, nil
}

// Undo puts an earlier revision into effect, by its short hash or the beginning of it, or
// the previous one that was Ready if revision is empty: while a candidate is prepared, the one
// that runs. It stays until the manifest changes or Retry is called. A candidate is dropped. Undo
// does not wait until the revision is prepared.
func (c *Controller) Undo(fullName, revision string) error {
	return c.call(func() error { return c.undo(fullName, revision) })
}

func (c *Controller) undo(fullName, id string) error {
	r := c.byName[fullName]
	if r == nil {
		return fmt.Errorf("pod %s: %w", fullName, ErrUnknownPod)
	}
	var e entry
	var err error
	if id == "" {
		e, err = c.previous(r)
	} else {
		e, err = r.find(id)
	}
	if err != nil {
		return fmt.Errorf("cannot undo the rollout of pod %s: %w", fullName, err)
	}
	if r.candidate != nil && e.Revision == r.candidate.id {
		return fmt.Errorf("cannot undo the rollout of pod %s: revision %s: %w", fullName, e.Revision, ErrPreparing)
	}
	if e.Revision == r.current.id && r.candidate == nil && (r.choice.pinned != nil || e.Revision == c.desired(r).id) {
		return fmt.Errorf("cannot undo the rollout of pod %s: revision %s: %w", fullName, e.Revision, ErrInEffect)
	}
	target := r.current
	if e.Revision != r.current.id {
		if target, err = c.store.revision(r.name, e); err != nil {
			return fmt.Errorf("cannot undo the rollout of pod %s: %w", fullName, err)
		}
	}
	c.log.Info("Undoing rollout of pod by request", "pod", fullName, "revision", e.Revision)
	c.locked(func() { r.choice.pinned = target })
	if e.Revision == revisionID(r.manifest) && len(r.choice.images) == 0 {
		c.locked(func() { r.choice = choice{} }) // it is the manifest's own
	}
	// Stored before the act.
	c.save(r, durably)
	c.choose(r, nil)
	c.subscribers.Notify()
	return nil
}

// previous returns what ran before the last change: the newest revision that was Ready before the
// one in effect. While a candidate is prepared, that change is not in effect yet: it is the one in
// effect itself, unless it was never Ready and an earlier one was.
func (c *Controller) previous(r *podRollout) (entry, error) {
	c.mu.Lock()
	works := r.good || !r.readyAt.IsZero()
	c.mu.Unlock()
	current := entry{Revision: r.current.id}
	if r.state == Preparing && works {
		return current, nil
	}
	before := r.history
	if i := before.index(r.current.id); i >= 0 {
		before = before[:i]
	}
	for _, e := range slices.Backward(before) {
		if e.Ready {
			return e, nil
		}
	}
	if r.state == Preparing {
		return current, nil
	}
	return entry{}, fmt.Errorf("%w: none was Ready before the one in effect", api.ErrNoRevision)
}

// find returns the entry with a hash that begins with id, which is that of a revision that was in
// effect or of the candidate.
func (r *podRollout) find(id string) (entry, error) {
	var found []entry
	for _, e := range r.history {
		if strings.HasPrefix(e.Revision, id) {
			found = append(found, e)
		}
	}
	if r.candidate != nil && strings.HasPrefix(r.candidate.id, id) && r.history.index(r.candidate.id) < 0 {
		found = append(found, entry{Revision: r.candidate.id})
	}
	switch len(found) {
	case 0:
		return entry{}, fmt.Errorf("%w: %s", api.ErrNoRevision, id)
	case 1:
		return found[0], nil
	}
	return entry{}, fmt.Errorf("%w: %s is the beginning of several; give more of its digits", api.ErrNoRevision, id)
}

// Retry puts the revision of the manifest into effect again, after a rollback or Undo,
// or tries its preparation again at once, without the back-offs of pulls that failed.
func (c *Controller) Retry(fullName string) error {
	return c.call(func() error { return c.retry(fullName) })
}

func (c *Controller) retry(fullName string) error {
	r := c.byName[fullName]
	if r == nil {
		return fmt.Errorf("pod %s: %w", fullName, ErrUnknownPod)
	}
	if r.choice.pinned == nil && r.choice.rejected == nil {
		if p := r.preparation; p == nil {
			return fmt.Errorf("cannot retry the rollout of pod %s: the revision of its manifest: %w", fullName, ErrInEffect)
		} else if !p.running && !p.queued && !p.prepared {
			c.loop.node.ForgetPrepared(r.candidate.pod.UID)
			p.backoff = 0
			c.prepare(r)
		}
		return nil
	}
	c.log.Info("Retrying rollout of pod by request", "pod", fullName, "revision", revisionID(r.manifest))
	c.locked(func() { r.choice.pinned, r.choice.rejected = nil, nil })
	if want := c.desired(r).pod.UID; want != r.current.pod.UID {
		c.loop.node.ForgetPrepared(want)
	}
	// Stored before the act.
	c.save(r, durably)
	c.choose(r, nil)
	c.subscribers.Notify()
	return nil
}

// SetImages makes the manifest's revision run with other images: container name to
// repository:tag@sha256:…. Containers that are not in the map keep the image of the
// manifest, so that an empty map returns to it. The images hold until the manifest
// changes. It is ErrRejected if the revision with these images, or the manifest's, was
// rolled back, and ErrUndone if a request has chosen another revision.
func (c *Controller) SetImages(fullName string, images map[string]string) error {
	images = maps.Clone(images)
	return c.call(func() error { return c.setImages(fullName, images, nil) })
}

func (c *Controller) setImages(fullName string, images, previous map[string]string) error {
	r := c.byName[fullName]
	if r == nil {
		return fmt.Errorf("pod %s: %w", fullName, ErrUnknownPod)
	}
	want := withImages(r.manifest, images)
	if r.choice.pinned != nil {
		return fmt.Errorf("cannot set the images of pod %s: %w", fullName, ErrUndone)
	}
	if rejected := r.choice.rejected; rejected != nil {
		if rejected.Revision == want.id || rejected.Revision == revisionID(r.manifest) {
			return fmt.Errorf("cannot set the images of pod %s: revision %s: %w", fullName, rejected.Revision, ErrRejected)
		}
	}
	if maps.Equal(r.choice.images, want.images) {
		return nil
	}
	c.log.Info("Images of pod set", "pod", fullName, "revision", want.id, "images", want.images)
	c.locked(func() { r.choice = choice{images: want.images, previous: previous} })
	// Stored before the act.
	c.save(r, durably)
	c.choose(r, nil)
	c.subscribers.Notify()
	return nil
}
