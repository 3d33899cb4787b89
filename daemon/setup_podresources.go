package daemon

import (
	"context"
	"path/filepath"

	"github.com/podstead/podstead/node/podresources"
)

// servePodResources serves the PodResources API next to the directory of device plugins, where
// exporters look for it. Next to a kubelet, which serves it, podstead does not.
func (d *daemon) servePodResources(context.Context) error {
	listener, err := podresources.Listen(filepath.Join(filepath.Dir(d.opts.Paths.DevicePlugins), "pod-resources"))
	if err != nil {
		d.log.Warn("PodResources API is not served", "err", err)
		return nil
	}
	cfg := podresources.Config{Pods: d.sup.SyncedPods, Devices: d.devices,
		Requested: d.observers.counters.PodResourcesRequested}
	if m := d.managers; m != nil && m.CPU != nil {
		cfg.CPUs = m.CPU
	}
	if m := d.managers; m != nil && m.Memory != nil {
		cfg.Memory = m.Memory
	}
	if d.claims != nil {
		cfg.Claims = d.claims
	}
	d.start(func(ctx context.Context) error { return podresources.Serve(ctx, listener, cfg) })
	return nil
}
