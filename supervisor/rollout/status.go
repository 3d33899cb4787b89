package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

// Reasons of rollouts, in statuses, conditions and events.
const (
	// ReasonPreparing: a revision is prepared, and the running one stays until then.
	ReasonPreparing = "RolloutPreparing"
	// ReasonRolledBack: the last good revision is in effect, or is going to be.
	ReasonRolledBack = "RolledBack"
	// ReasonUndone: an earlier revision is in effect on request.
	ReasonUndone = "RolloutUndone"
	// ReasonProgressing: the revision in effect is not Ready yet.
	ReasonProgressing = "RolloutProgressing"
	// ReasonDeadline, ReasonCrashLoop and ReasonFailed are why a revision failed.
	ReasonDeadline  = "RolloutDeadlineExceeded"
	ReasonCrashLoop = "RolloutCrashLoop"
	ReasonFailed    = "RolloutPodFailed"
)

// Rollouts returns the rollouts of all static pods, sorted by pod.
func (c *Controller) Rollouts() []api.Rollout {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]api.Rollout, 0, len(c.byName))
	for _, name := range slices.Sorted(maps.Keys(c.byName)) {
		list = append(list, c.statusOf(c.byName[name]))
	}
	return list
}

// RolledBack returns how many pods run an earlier revision, or are going to, since that of their
// manifest failed.
func (c *Controller) RolledBack() (pods int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.byName {
		if r.state == RolledBack || r.state == RollingBack {
			pods++
		}
	}
	return pods
}

// StatusOf returns the rollout of one pod, by namespace/name with the node's suffix;
// false for a pod that no manifest declares.
func (c *Controller) StatusOf(fullName string) (api.Rollout, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.byName[fullName]
	if r == nil {
		return api.Rollout{}, false
	}
	return c.statusOf(r), true
}

// statusOf returns the status of a rollout. mu is held.
func (c *Controller) statusOf(r *podRollout) api.Rollout {
	s := api.Rollout{State: r.state, Revision: r.current.id, UID: r.current.pod.UID, Since: r.since,
		Images: maps.Clone(r.choice.images), Deadline: c.deadline(r)}
	s.Manifest = r.manifest.Annotations[podinfo.AnnotationHash]
	s.Namespace, s.Name, _ = strings.Cut(r.name, "/")
	switch {
	case r.candidate != nil:
		s.Candidate = r.candidate.id
	case r.choice.rejected != nil:
		s.Candidate = r.choice.rejected.Revision
	}
	if r.lastGood != nil {
		s.LastGood = r.lastGood.id
	}
	if cause := r.explain(); cause != nil {
		s.Reason, s.Message = cause.Reason, cause.Message
		return s
	}
	switch {
	case r.state == Preparing:
		s.Reason, s.Message = ReasonPreparing,
			fmt.Sprintf("revision %s is being prepared, the running one stays until then", s.Candidate)
	case !r.good && r.lastGood == nil && c.rollbackAfter(r) > 0:
		s.Reason, s.Message = ReasonProgressing, "not Ready yet; no earlier revision was Ready, so that it is not rolled back"
	case r.state == Progressing:
		s.Reason, s.Message = ReasonProgressing,
			fmt.Sprintf("not Ready yet; it is rolled back to revision %s if it is not Ready in time", s.LastGood)
	}
	return s
}

// WaitPrepared waits until each revision that is prepared came into effect, or could not
// be prepared, and calls held for each of the latter with the
// namespace and name in the pod's manifest. It
// returns the context's error if that ends first.
func (c *Controller) WaitPrepared(ctx context.Context, held func(name, why string)) error {
	changed, cancel := c.Subscribe()
	defer cancel()
	for {
		waits, failed := false, map[string]string{}
		c.mu.Lock()
		for _, r := range c.byName {
			switch {
			case r.state != Preparing && r.state != RollingBack:
			case r.preparation == nil || r.preparation.cause.Reason == "":
				waits = true
			default:
				pod := r.candidate.pod
				failed[pod.Namespace+"/"+manifest.BaseName(pod)] = r.explain().Message
			}
		}
		c.mu.Unlock()
		if !waits {
			for _, name := range slices.Sorted(maps.Keys(failed)) {
				held(name, failed[name])
			}
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// HeldFor returns why the pod with this UID is not the newest revision of its manifest,
// nil if it is, or if there is nothing to report yet.
func (c *Controller) HeldFor(uid types.UID) *status.Cause {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.byUID[uid]; r != nil {
		return r.explain()
	}
	return nil
}

// explain returns why another revision than the manifest's is in effect; nil if that is
// not so, or lasts for moments only.
func (r *podRollout) explain() *status.Cause {
	rejected := r.choice.rejected
	switch {
	case r.state == Preparing && r.preparation != nil && r.preparation.cause.Message != "":
		cause := r.preparation.cause
		text := fmt.Sprintf("revision %s is not in effect yet, the running one stays until it is prepared: %s",
			r.candidate.id, joined(cause.Reason, cause.Message))
		if cause.Reason != "" && r.choice.pinned == nil {
			// It may need what the running one has, such as the space of an image.
			text += fmt.Sprintf("; the annotation %s: %s in its manifest replaces the running one at once",
				podinfo.AnnotationReplace, podinfo.ReplaceKubelet)
		}
		return &status.Cause{Reason: ReasonPreparing, Message: text}
	case r.state == RollingBack && rejected != nil:
		text := fmt.Sprintf("revision %s failed: %s; the last good revision %s replaces it", rejected.Revision,
			rejected.Cause.Message, r.lastGood.id)
		if r.preparation != nil && r.preparation.cause.Message != "" {
			text += " when it is prepared: " + r.preparation.cause.Message
		}
		return &status.Cause{Reason: ReasonRolledBack, Message: text}
	case r.state == RolledBack && rejected != nil:
		text := fmt.Sprintf("revision %s failed and was rolled back: %s; it is tried again when the manifest changes, or "+
			"on request", rejected.Revision, rejected.Cause.Message)
		if r.stuck != nil {
			text += fmt.Sprintf("; revision %s is not Ready either: %s", r.current.id, r.stuck.Message)
		}
		return &status.Cause{Reason: ReasonRolledBack, Message: text}
	case r.state == Undone:
		return &status.Cause{Reason: ReasonUndone,
			Message: "an earlier revision is in effect on request, until the manifest changes, or it is retried on request"}
	}
	return nil
}

// Images returns the images that image garbage collection must keep next to those of
// the desired pods: of revisions that are prepared, and that a rollback would start.
func (c *Controller) Images() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var images []string
	for _, r := range c.byName {
		for _, revision := range []*revision{r.candidate, r.lastGood, r.choice.pinned} {
			if revision != nil && revision != r.current {
				images = slices.AppendSeq(images, podinfo.Images(&revision.pod.Spec))
			}
		}
	}
	return images
}
