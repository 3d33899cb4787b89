package daemon

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/podstead/podstead/daemon/preflight"
	"github.com/podstead/podstead/node/assignments"
	"github.com/podstead/podstead/node/csi"
	"github.com/podstead/podstead/supervisor/volume"
)

// newCSI creates what publishes the volumes of CSI drivers. The directories of the volumes are next
// to the one in which drivers register, so that the manifests of drivers need no change: they mount
// the directories pods and plugins of /var/lib/kubelet.
func (d *daemon) newCSI() *csi.Manager {
	paths := &d.opts.Paths
	return csi.New(csi.Options{
		Dir: filepath.Dir(paths.PluginRegistry), Registry: paths.PluginRegistry,
		File: filepath.Join(paths.Root, "csi-volumes.json"), BootID: assignments.BootID("/proc"),
		Disk: d.disk, Log: d.log,
	})
}

// lockCSI creates the directories that drivers mount, and keeps other daemons from using them.
func (d *daemon) lockCSI(ctx context.Context) error {
	if err := d.csi.MakeDirectories(); err != nil {
		return fmt.Errorf("failed to create the directories of CSI volumes: %w", err)
	}
	lock, err := preflight.LockVolumes(ctx, d.csi.PluginsDir())
	if err == nil {
		d.closeLater(lock)
	}
	return err
}

// shareCSI makes what drivers mount for pods, in their containers, visible on the host, where the
// host's mounts are private. It runs before a driver starts.
func (d *daemon) shareCSI() {
	if err := (&volume.Volumes{Root: d.sharedCSI()}).ShareRoot(); err != nil {
		d.log.Warn("Mounts of CSI drivers do not propagate; pods with such volumes do not start", "err", err)
	}
}

// sharedCSI returns the directory in which drivers mount.
func (d *daemon) sharedCSI() string {
	paths := &d.opts.Paths
	dir := filepath.Dir(paths.PluginRegistry)
	if dir == paths.Root {
		dir = filepath.Join(dir, "plugins") // pods are shared with the other volumes
	}
	return dir
}
