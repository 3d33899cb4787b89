package main

import (
	"context"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/node/devices"
	"github.com/podstead/podstead/node/plugins"
)

// createDevices opens the registration socket of device plugins. Next to a kubelet, which owns
// the default directory, podstead runs without; a directory that was set is required.
func (d *daemon) createDevices(context.Context) error {
	o := d.opts
	d.csi = d.newCSI()
	d.devices = devices.New(devices.Options{
		Dir: o.Paths.DevicePlugins, Checkpoint: filepath.Join(o.Paths.Root, "devices.json"), Local: o.LocalDevices, Unwritten: d.unwritten, Log: d.log,
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
	if err != nil && !o.Paths.RequiresPluginRegistry() {
		return nil // the plugins are the kubelet's
	}
	return d.watchPlugins()
}

// watchPlugins registers the plugins that create a socket to be asked. A directory that was set is
// required.
func (d *daemon) watchPlugins() error {
	watcher := plugins.New(plugins.Options{
		Dir: d.opts.Paths.PluginRegistry, Handlers: map[string]plugins.Handler{plugins.DevicePlugin: d.devices, plugins.CSIPlugin: d.csi}, Log: d.log,
	})
	if err := watcher.Open(); err != nil {
		if d.opts.Paths.RequiresPluginRegistry() {
			return err
		}
		d.log.Warn("Plugins cannot register through the plugin watcher", "err", err)
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
