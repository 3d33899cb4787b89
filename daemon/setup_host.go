package daemon

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/daemon/preflight"
	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/unwritten"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/process"
)

// prepareHost takes the locks that keep a second daemon away, settles the node's
// name, and protects this process from the OOM killer.
func (d *daemon) prepareHost(ctx context.Context) error {
	lock, err := preflight.LockRoot(ctx, d.opts.Paths.Root)
	if err != nil {
		return err
	}
	d.closeLater(lock)
	cgroupLock, warning, err := preflight.LockCgroupRoot(ctx, d.opts.Cgroups.Root)
	if err != nil {
		return err
	}
	if warning != "" {
		d.log.Warn(warning)
	}
	d.closeLater(cgroupLock)
	process.ProtectFromOOM(d.log)
	d.unwritten = unwritten.New()
	d.disk = statefile.Disk{Unwritten: d.unwritten}
	d.nodeName, warning, err = manifest.ResolveNodeName(d.opts.Paths.Root, d.opts.Node, os.Hostname, d.disk)
	if err != nil {
		return err
	}
	if warning != "" {
		d.log.Warn(warning)
	}
	d.admitNode = admitNode(d.opts, d.nodeName)
	// Read before a runtime is started for a daemon that cannot start.
	if d.credentials, err = nodeCredentials(d.opts); err != nil {
		return err
	}
	process.LimitMemory()
	d.log.Info("Starting podstead",
		append([]any{"version", "podstead " + buildinfo.Version(), "node", d.nodeName, "root", d.opts.Paths.Root},
			sourceAttrs(d.opts.Manifests)...)...)
	return nil
}

// sourceAttrs returns the log attributes that say where manifests come from.
func sourceAttrs(m config.Manifests) (attrs []any) {
	if m.Path != "" {
		attrs = append(attrs, "manifests", m.Path)
	}
	if m.URL != "" {
		attrs = append(attrs, "url", m.RedactedURL())
	}
	if len(m.OCI) > 0 {
		attrs = append(attrs, "oci", strings.Join(m.OCI, ","))
	}
	return attrs
}

// machineID returns the ID of this machine. A machine without one uses the node's
// name, which still tells pods of other root directories apart.
func machineID(node string, log *slog.Logger) string {
	id, ok := config.MachineID("/etc/machine-id", "/var/lib/dbus/machine-id")
	if !ok {
		log.Warn("This machine has no machine ID, using the node name to label pods as podstead's; create one with " +
			"systemd-machine-id-setup before pods run")
		return node
	}
	return id
}
