package daemon

import (
	"context"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/autoupdate"
)

// createAutoUpdate creates what updates the images of pods that ask for it.
func (d *daemon) createAutoUpdate() {
	o := d.opts
	d.node.updater = autoupdate.New(autoupdate.Config{
		Schedule: autoupdate.Schedule{Interval: o.AutoUpdate.Interval, Windows: o.AutoUpdate.Windows, Node: d.nodeName},
		Rollouts: d.sources.rollouts, Registry: d.registries, Images: d.runtime.Client,
		Pull: func(ctx context.Context, image string, credentials cri.PullCredentials) error {
			_, _, err := cri.PullImage(ctx, d.images, d.pullRecords, image, credentials)
			return err
		},
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
	})
	if !o.RunOnce {
		d.start(d.node.updater.Run)
	}
}
