package daemon

import (
	"context"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/autoupdate"
	"github.com/podstead/podstead/supervisor/rollout"
)

// createAutoUpdate creates what updates the images of pods that ask for it.
func (d *daemon) createAutoUpdate() error {
	d.node.updater = autoupdate.New(d.autoUpdateConfig())
	if !d.opts.RunOnce {
		d.start(d.node.updater.Run)
	}
	return nil
}

func (d *daemon) autoUpdateConfig() autoupdate.Config {
	o := d.opts
	return autoupdate.Config{
		Schedule: autoupdate.Schedule{Interval: o.AutoUpdate.Interval, Windows: o.AutoUpdate.Windows, Node: d.nodeName},
		Rollouts: rolledOutImages{d.sources.rollouts}, Registry: d.registries, Images: updateImages{d.runtime.client, d},
		Observed: d.observers.pleg.Observed,
		Credentials: func(pod *v1.Pod) cri.PullCredentials {
			var secrets []string
			for _, s := range pod.Spec.ImagePullSecrets {
				secrets = append(secrets, s.Name)
			}
			return d.sup.PullCredentials(pod.Namespace, secrets)
		},
		File: filepath.Join(o.Paths.Root, "autoupdate.json"), Disk: d.disk,
		Events: d.observers.events, Metrics: d.observers.counters, Log: d.log,
	}
}

// rolledOutImages implements autoupdate.Rollouts.
type rolledOutImages struct{ *rollout.Controller }

// AutoUpdated implements autoupdate.Rollouts.
func (r rolledOutImages) AutoUpdated() (targets []autoupdate.Target) {
	for _, t := range r.Controller.AutoUpdated() {
		targets = append(targets, autoupdate.Target(t))
	}
	return targets
}

// SetImages implements autoupdate.Rollouts.
func (r rolledOutImages) SetImages(fullName string, images, previous map[string]string) error {
	return r.UpdateImages(fullName, images, previous)
}

// updateImages implements autoupdate.Images.
type updateImages struct {
	*cri.Client
	d *daemon
}

// Pull implements autoupdate.Images.
func (i updateImages) Pull(ctx context.Context, image string, credentials cri.PullCredentials) error {
	_, _, err := cri.PullImage(ctx, i.d.pulls, i.d.pullRecords, image, credentials)
	return err
}
