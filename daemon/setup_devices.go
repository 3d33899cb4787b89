package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cluster"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/devices"
	"github.com/podstead/podstead/node/dra"
	"github.com/podstead/podstead/node/plugins"
)

// createDevices opens the registration socket of device plugins. Next to a kubelet, which owns
// the default directory, podstead runs without; a directory that was set is required.
func (d *daemon) createDevices(ctx context.Context) error {
	o := d.opts
	d.createClaims()
	d.devices = devices.New(devices.Options{
		Dir: o.Paths.DevicePlugins, Checkpoint: filepath.Join(o.Paths.Root, "devices.json"), Local: o.LocalDevices,
		Disk: d.disk, Log: d.log,
	})
	listener, err := d.devices.Open()
	if err != nil && o.Paths.RequiresDevicePlugins() {
		return err
	}
	if err != nil {
		d.log.Warn("Device plugins cannot register", "err", err)
		d.devices.Disable(err)
	}
	d.start(func(ctx context.Context) error { return d.devices.Run(ctx, listener) })
	if errors.Is(err, devices.ErrInUse) && !o.Paths.RequiresPluginRegistry() {
		// The plugins are the kubelet's. A pod with claims or CSI volumes waits, and reports it.
		d.disablePlugins(err)
		return nil
	}
	return d.watchPlugins(ctx)
}

// createClaims creates what prepares the resource claims of a cluster's pods. Without a kubeconfig it
// only gives back the claims of a cluster that the node has left, if there are any.
func (d *daemon) createClaims() {
	checkpoint := filepath.Join(d.opts.Paths.Root, "resource-claims.json")
	o := dra.Options{Checkpoint: checkpoint, Disk: d.disk, Log: d.log}
	if d.opts.Cluster.Kubeconfig != "" {
		d.bound = cluster.NewObjects(manifest.References)
		o.Claims, o.Slices = d.bound, d.bound
	} else if _, err := os.Stat(checkpoint); err != nil {
		return
	}
	d.claims = dra.New(o)
	d.start(d.claims.Run)
	if o.Slices != nil {
		d.start(d.claims.DeleteSlices)
	}
}

// disablePlugins tells the users of drivers why none can register.
func (d *daemon) disablePlugins(err error) {
	d.csi.Disable(err)
	if d.claims != nil {
		d.claims.Disable(err)
	}
}

// watchPlugins registers the plugins that create a socket to be asked. A directory that was set is
// required.
func (d *daemon) watchPlugins(ctx context.Context) error {
	handlers := map[string]plugins.Handler{plugins.DevicePlugin: d.devices, plugins.CSIPlugin: d.csi}
	if d.claims != nil {
		handlers[plugins.DRAPlugin] = d.claims
	}
	watcher := plugins.New(plugins.Options{Dir: d.opts.Paths.PluginRegistry, Handlers: handlers, Log: d.log})
	err := watcher.Open()
	if err == nil {
		err = d.lockCSI(ctx)
	}
	if err != nil {
		if d.opts.Paths.RequiresPluginRegistry() {
			return err
		}
		d.log.Warn("Plugins cannot register through the plugin watcher", "err", err)
		d.disablePlugins(err)
		return nil
	}
	d.shareCSI()
	d.start(watcher.Run)
	return nil
}

// withDevices returns the resources of the node with those of its devices.
func withDevices(list, devices v1.ResourceList) v1.ResourceList {
	for name, quantity := range devices {
		list[name] = quantity
	}
	return list
}
