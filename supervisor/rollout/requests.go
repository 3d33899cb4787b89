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
	// ErrInEffect: the request would change nothing.
	ErrInEffect = errors.New("it is in effect already")
	// ErrRejected: the revision was rolled back.
	ErrRejected = errors.New("it failed and was rolled back")
	// ErrUndone: a request has chosen another revision.
	ErrUndone = errors.New("another revision is in effect on request")
)

// History returns the revisions of a pod that were in effect, the newest first. The
// name is namespace/name as in the pod, with the node's suffix.
func (c *Controller) History(fullName string) ([]api.RolloutRevision, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.byName[fullName]
	if r == nil {
		return nil, fmt.Errorf("pod %s: %w", fullName, ErrUnknownPod)
	}
	declared := revisionID(r.manifest)
	list := make([]api.RolloutRevision, 0, len(r.history))
	for _, e := range slices.Backward(r.history) {
		list = append(list, api.RolloutRevision{
			Revision: e.Revision, Time: e.Time, Ready: e.Ready, Rejected: e.Rejected, Images: maps.Clone(e.Images),
			InEffect: e.Revision == r.current.id, InManifest: e.Revision == declared,
		})
	}
	return list, nil
}

// Undo puts an earlier revision into effect, by its short hash or the beginning of it,
// or the newest one that was Ready before the one in effect if revision is empty. It
// stays until the manifest changes or Retry is called. Undo does not wait until the
// revision is prepared.
func (c *Controller) Undo(fullName, revision string) error {
	return c.call(func() error { return c.undo(fullName, revision) })
}

func (c *Controller) undo(fullName, id string) error {
	r := c.byName[fullName]
	if r == nil {
		return fmt.Errorf("pod %s: %w", fullName, ErrUnknownPod)
	}
	e, err := r.find(id)
	if err != nil {
		return fmt.Errorf("cannot undo the rollout of pod %s: %w", fullName, err)
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
	if e.Revision == revisionID(r.manifest) {
		c.locked(func() { r.choice = choice{} }) // it is the manifest's own
	}
	// Stored before the act.
	c.save(r, durably)
	c.choose(r, nil)
	c.subscribers.Notify()
	return nil
}

// find returns the entry with a hash that begins with id; with an empty id the newest
// one that was Ready before the one in effect.
func (r *podRollout) find(id string) (entry, error) {
	if id == "" {
		before := r.history
		if i := before.index(r.current.id); i >= 0 {
			before = before[:i]
		}
		for _, e := range slices.Backward(before) {
			if e.Ready {
				return e, nil
			}
		}
		return entry{}, fmt.Errorf("%w that was Ready before", api.ErrNoRevision)
	}
	var found []entry
	for _, e := range r.history {
		if strings.HasPrefix(e.Revision, id) {
			found = append(found, e)
		}
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
