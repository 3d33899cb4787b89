package autoupdate

import (
	"context"
	"slices"
	"strings"

	"github.com/podstead/podstead/api"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/registry"
	"github.com/podstead/podstead/supervisor/rollout"
)

// AutoUpdates returns what is known of all pods whose images are updated, sorted by full name.
func (u *Updater) AutoUpdates() []api.AutoUpdate {
	var all []api.AutoUpdate
	for _, t := range u.cfg.Rollouts.AutoUpdated() {
		all = append(all, u.status(&t))
	}
	return all
}

// status returns what is known of one pod.
func (u *Updater) status(t *rollout.ImageTarget) api.AutoUpdate {
	s := api.AutoUpdate{Namespace: t.Manifest.Namespace, Name: t.Manifest.Name, Policy: podinfo.AutoUpdate(t.Manifest)}
	if t.Busy == "" {
		s.Next = u.due(t)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	rec := u.recordOf(t)
	if s.Checked, s.Containers = rec.Checked, rec.Results; s.Containers == nil {
		s.Containers = []api.ContainerImageUpdate{}
	}
	return s
}

// CheckUpdates checks the images of pods at once, whatever the schedule and the maintenance
// windows, and starts the rollouts of newer ones unless dryRun is set. The names are full
// names; without any it checks all pods.
func (u *Updater) CheckUpdates(ctx context.Context, names []string, dryRun bool) ([]api.AutoUpdate, error) {
	all := []api.AutoUpdate{}
	for _, t := range u.cfg.Rollouts.AutoUpdated() {
		if len(names) == 0 || slices.Contains(names, podinfo.FullName(t.Manifest)) {
			all = append(all, u.check(ctx, &t, !dryRun))
		}
	}
	u.wake.Notify()
	return all, ctx.Err()
}

// ImagesLoaded is called after images were loaded into the runtime under these names. Pods
// that follow the local images are checked at once, or in the next maintenance window.
func (u *Updater) ImagesLoaded(names []string) {
	loaded := map[string]bool{}
	for _, name := range names {
		if ref, err := registry.Parse(name); err == nil {
			loaded[ref.String()] = true
		}
	}
	found := false
	for _, t := range u.cfg.Rollouts.AutoUpdated() {
		if podinfo.AutoUpdate(t.Manifest) != podinfo.AutoUpdateLocal {
			continue
		}
		for image := range podinfo.Images(&t.Manifest.Spec) {
			if ref, err := registry.Parse(strings.TrimSpace(image)); err == nil && loaded[ref.String()] {
				u.mu.Lock()
				u.forced[podinfo.FullName(t.Manifest)], found = true, true
				u.mu.Unlock()
			}
		}
	}
	if found {
		u.wake.Notify()
	}
}
