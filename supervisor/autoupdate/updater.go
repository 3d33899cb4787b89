package autoupdate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/registry"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/supervisor/rollout"
)

// Reasons of events.
const (
	reasonUpdating    = "ImageUpdateStarted"
	reasonCheckFailed = "ImageUpdateCheckFailed"
)

// maxSleep bounds how long Run waits without reading the clock, which may be set.
const maxSleep = time.Hour

// tagTimeout limits the pull of a tag whose image is present.
const tagTimeout = 10 * time.Minute

// Updater checks the images of pods when they are due.
type Updater struct {
	cfg     Config
	file    *statefile.File[record]
	started time.Time
	// wake notifies Run.
	wake wakeup.Signal

	// round is held during a check: of several at a time each would start a rollout.
	round sync.Mutex

	mu     sync.Mutex
	record record
	// forced are the pods to check as soon as a maintenance window is open.
	forced    map[string]bool
	saveError string
}

// New returns an Updater with the contents of its file. It starts nothing. A damaged file,
// or one of a newer version, is logged and moved aside.
func New(cfg Config) *Updater {
	cfg = cfg.withDefaults()
	file := recordFormat.File(cfg.File, cfg.Disk)
	r, err := loadRecord(file)
	if err != nil {
		cfg.Log.Warn("Failed to load the record of image updates, checking all pods again", "file", cfg.File, "err", err,
			"movedTo", statefile.MovedTo(err))
	}
	return &Updater{cfg: cfg, file: file, started: time.Now(), wake: wakeup.NewSignal(), record: r,
		forced: map[string]bool{}}
}

// revisionOf identifies the manifest's revision.
func revisionOf(t *rollout.ImageTarget) string {
	return cmp.Or(t.Manifest.Annotations[podinfo.AnnotationHash], string(t.Manifest.UID))
}

// Run checks pods when they are due, until ctx ends.
func (u *Updater) Run(ctx context.Context) error {
	changed, unsubscribe := u.cfg.Rollouts.Subscribe()
	defer unsubscribe()
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	for {
		targets := u.cfg.Rollouts.AutoUpdated()
		u.follow(ctx, targets)
		next, waiting := u.checkDue(ctx, targets)
		timer.Stop()
		if waiting {
			timer.Reset(min(max(time.Until(next), 0), maxSleep))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-u.wake.C():
		case <-timer.C:
		}
	}
}

// checkDue checks the pods that are due, and returns when the next one is; false if none
// will be.
func (u *Updater) checkDue(ctx context.Context, targets []rollout.ImageTarget) (next time.Time, waiting bool) {
	for i := range targets {
		t := &targets[i]
		if t.Busy != "" {
			continue // the end of its rollout wakes Run
		}
		due := u.due(t)
		if !due.After(time.Now()) && ctx.Err() == nil {
			u.check(ctx, t, true)
			due = u.due(t)
		}
		if !waiting || due.Before(next) {
			next, waiting = due, true
		}
	}
	return next, waiting
}

// due returns when a pod is to be checked.
func (u *Updater) due(t *rollout.ImageTarget) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	name, rec, now := podinfo.FullName(t.Manifest), u.recordOf(t), time.Now()
	switch {
	case u.forced[name]:
		return u.cfg.Schedule.inWindow(name, now)
	case t.Candidate != nil:
		// It may wait for an image that is not at the registry any more.
		return u.cfg.Schedule.inWindow(name, u.counts(rec.Attempted, now).Add(min(maxRetry, u.cfg.Schedule.Interval)))
	case rec.Failures > 0:
		return u.cfg.Schedule.Retry(name, u.counts(rec.Attempted, now), rec.Failures)
	}
	return u.cfg.Schedule.Next(name, u.counts(rec.last(), now), u.started)
}

// counts returns a recorded time as it counts now: while the clock is not set, one of the future counts as the start
// of the daemon.
func (u *Updater) counts(t, now time.Time) time.Time {
	t, _ = wallclock.Recorded(t, now, u.started)
	return t
}

// recordOf returns the record of a pod, a new one if it has none; the caller holds mu.
func (u *Updater) recordOf(t *rollout.ImageTarget) *podRecord {
	name := podinfo.FullName(t.Manifest)
	rec := u.record.Pods[name]
	if rec == nil {
		rec = &podRecord{Manifest: revisionOf(t), Since: time.Now().Round(0)}
		u.record.Pods[name] = rec
		u.save()
	}
	if revision := revisionOf(t); rec.Manifest != revision {
		// Another manifest: what was found about the previous one does not hold.
		rec.Manifest, rec.Pending, rec.Rejected, rec.Results = revision, nil, nil, nil
		u.save()
	}
	return rec
}

// save writes the record; the caller holds mu. An error is logged once.
func (u *Updater) save() {
	err := u.file.Save(u.record)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != u.saveError {
		u.cfg.Log.Warn("Failed to save the record of image updates", "file", u.cfg.File, "err", err)
	}
	u.saveError = text
}

// check checks one pod, and starts the rollout of newer images if apply is set.
func (u *Updater) check(ctx context.Context, t *rollout.ImageTarget, apply bool) api.AutoUpdate {
	u.round.Lock()
	defer u.round.Unlock()
	u.mu.Lock()
	rec := *u.recordOf(t)
	rec.Same = maps.Clone(rec.Same)
	u.mu.Unlock()
	found := u.compare(ctx, t, &rec)
	if ctx.Err() != nil {
		return u.status(t)
	}
	results := make([]api.ContainerImageUpdate, len(found))
	images, previous := map[string]string{}, map[string]string{}
	maps.Copy(images, t.Images)
	var failure error
	for i := range found {
		results[i] = found[i].result
		if found[i].update != "" {
			images[results[i].Container], previous[results[i].Container] = found[i].update, found[i].running
		}
		if failure == nil {
			failure = found[i].err
		}
		u.count(results[i].State)
	}
	if apply {
		if err := u.apply(t, images, previous, results); err != nil && failure == nil {
			failure = err
		}
	}
	u.finish(t, &rec, results, failure, apply)
	status := u.status(t)
	status.Containers = results
	return status
}

func (u *Updater) count(state string) {
	switch state {
	case api.UpdateCurrent, api.UpdateRolledBack:
		u.cfg.Metrics.ImageChecked("current")
	case api.UpdateAvailable:
		u.cfg.Metrics.ImageChecked("available")
	case api.UpdateFailed:
		u.cfg.Metrics.ImageChecked("failed")
	}
}

// apply starts the rollout of newer images, and writes what came of it into the results. An
// update that is still prepared is superseded, or cancelled if the tags are back at what runs.
func (u *Updater) apply(t *rollout.ImageTarget, images, previous map[string]string,
	results []api.ContainerImageUpdate) (err error) {
	unchanged := len(previous) == 0
	switch {
	case unchanged && t.Candidate == nil && t.Rejected == nil:
		return nil
	case unchanged && !slices.ContainsFunc(results, func(r api.ContainerImageUpdate) bool {
		return r.State == api.UpdateFailed || r.State == api.UpdateRolledBack
	}):
		// The tags are back at what runs.
		return u.cfg.Rollouts.UpdateImages(podinfo.FullName(t.Manifest), t.Images, nil)
	case unchanged:
		return nil // what is prepared may still be the newest
	case t.Busy != "":
		err = fmt.Errorf("the images cannot be changed now: %s", t.Busy)
	case !maps.Equal(images, t.Candidate):
		// Before the act: a rollout that ends while the daemon is down is known by this.
		u.setPending(t, images)
		if err = u.cfg.Rollouts.UpdateImages(podinfo.FullName(t.Manifest), images, previous); err != nil {
			u.setPending(t, nil)
		}
	}
	for i := range results {
		r := &results[i]
		if previous[r.Container] == "" {
			continue
		}
		if err != nil {
			r.State, r.Message = api.UpdateFailed, err.Error()
			continue
		}
		r.State = api.UpdateUpdating
		if !maps.Equal(images, t.Candidate) {
			u.cfg.Events.Event(t.Manifest, v1.EventTypeNormal, reasonUpdating,
				fmt.Sprintf("Updating image %q of container %s from %s to %s", r.Image, r.Container, short(r.Running),
					short(r.Latest)))
			u.cfg.Log.Info("Updating image", "pod", podinfo.FullName(t.Manifest), "container", r.Container, "image", r.Image,
				"from", r.Running,
				"to", r.Latest)
		}
	}
	return err
}

func (u *Updater) setPending(t *rollout.ImageTarget, images map[string]string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.recordOf(t).Pending = images
	u.save()
}

// short shortens a digest for a message.
func short(digest string) string {
	if algorithm, hex, ok := strings.Cut(digest, ":"); ok && len(hex) > 12 {
		return algorithm + ":" + hex[:12]
	}
	return digest
}

// finish records the end of a check. A check without apply changes no schedule.
func (u *Updater) finish(t *rollout.ImageTarget, rec *podRecord, results []api.ContainerImageUpdate, failure error,
	apply bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	kept := u.recordOf(t)
	kept.Same = rec.Same
	before := kept.Results
	kept.Results = results
	if failure != nil && !sameFailure(before, failure) {
		u.cfg.Events.Event(t.Manifest, v1.EventTypeWarning, reasonCheckFailed, failure.Error())
		u.cfg.Log.Warn("Failed to check for newer images, retrying", "pod", podinfo.FullName(t.Manifest), "err", failure)
	}
	if !apply {
		u.save()
		return
	}
	now := time.Now().Round(0)
	kept.Attempted = now
	delete(u.forced, podinfo.FullName(t.Manifest))
	if failure != nil {
		kept.Failures++
	} else {
		kept.Failures, kept.Checked = 0, now
	}
	u.save()
}

// sameFailure reports whether the previous check failed in the same way.
func sameFailure(before []api.ContainerImageUpdate, failure error) bool {
	return slices.ContainsFunc(before, func(r api.ContainerImageUpdate) bool {
		return r.State == api.UpdateFailed && r.Message == failure.Error()
	})
}

// follow notes how the rollouts of newer images have ended.
func (u *Updater) follow(ctx context.Context, targets []rollout.ImageTarget) {
	var completed []*rollout.ImageTarget
	u.mu.Lock()
	if u.record.fixTimes(time.Now(), u.started) {
		u.save()
	}
	u.record.prune(targets, time.Now())
	for i := range targets {
		t := &targets[i]
		rec := u.recordOf(t)
		switch {
		case rec.Pending == nil || t.Busy != "" || t.Candidate != nil:
			continue
		case maps.Equal(rec.Pending, t.Images):
			u.cfg.Metrics.ImageUpdated("completed")
			setStates(rec, api.UpdateCurrent, "")
			completed = append(completed, t)
		case maps.Equal(rec.Pending, t.Rejected):
			u.cfg.Metrics.ImageUpdated("rolled_back")
			if rec.Rejected == nil {
				rec.Rejected = map[string]string{}
			}
			for container, image := range rec.Pending {
				if t.Images[container] != image {
					rec.Rejected[container] = image
				}
			}
			setStates(rec, api.UpdateRolledBack, rolledBackMessage)
		default: // superseded by a request, or never begun
			setStates(rec, api.UpdateAvailable, "")
		}
		rec.Pending = nil
		u.save()
	}
	u.mu.Unlock()
	for _, t := range completed {
		u.moveTags(ctx, t)
	}
}

// rolledBackMessage reports why a newer image is not rolled out.
const rolledBackMessage = "the pod did not become ready with this image; it is tried again when the tag or the " +
	"manifest changes"

// setStates sets the state of the containers that an update has changed.
func setStates(rec *podRecord, state, message string) {
	rec.Results = slices.Clone(rec.Results)
	for i := range rec.Results {
		r := &rec.Results[i]
		if r.State != api.UpdateUpdating {
			continue
		}
		r.State, r.Message = state, message
		if state == api.UpdateCurrent {
			r.Running = r.Latest
		}
	}
}

// moveTags pulls the tags whose images were rolled out by digest, unless they have moved on
// at their registries. Else a later edit of the manifest would start the image that the
// runtime has under the tag, which is the previous one.
func (u *Updater) moveTags(ctx context.Context, t *rollout.ImageTarget) {
	if podinfo.AutoUpdate(t.Manifest) != podinfo.AutoUpdateRegistry {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tagTimeout)
	defer cancel()
	for container, image := range t.Images {
		tag, digest, ok := strings.Cut(image, "@")
		ref, err := registry.Parse(tag)
		if !ok || err != nil {
			continue
		}
		credentials, err := u.credentials(ctx, t.Manifest, tag)
		if err == nil {
			var found registry.Descriptor
			if found, err = u.cfg.Registry.Resolve(ctx, ref, credentials...); err == nil && found.Digest == digest {
				err = u.cfg.Pull(ctx, tag, u.cfg.Credentials(t.Manifest))
			}
		}
		if err != nil {
			u.cfg.Log.Debug("Failed to pull the tag of an updated image", "pod", podinfo.FullName(t.Manifest), "container",
				container, "image", tag,
				"err", err)
		}
	}
}
