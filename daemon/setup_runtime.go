package daemon

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/connect"
	"github.com/podstead/podstead/cri/imagestore"
	"github.com/podstead/podstead/cri/private"
	"github.com/podstead/podstead/cri/pullrecords"
	"github.com/podstead/podstead/daemon/preflight"
	"github.com/podstead/podstead/internal/wallclock"
)

// cniBinDirs are the directories of CNI plugins: installed by hand, by Debian, by
// Red Hat.
var cniBinDirs = []string{"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"}

// openRuntime chooses the runtime, connects to it, and starts the private
// containerd if that is the one.
func (d *daemon) openRuntime(ctx context.Context) error {
	d.observers = newObservers()
	if err := d.openTracing(); err != nil {
		return err
	}
	o, own := d.opts, privateConfig(d.opts)
	own.Disk = d.disk
	d.instance = cri.Instance(machineID(d.nodeName, d.log), o.Paths.Root)
	rt, err := connect.Open(ctx, connect.Config{
		Dial: cri.Options{Endpoint: o.Runtime.Endpoint, Instance: d.instance, RequestTimeout: o.Runtime.RequestTimeout,
			Log: d.log, Observe: d.observers.counters.RuntimeCall},
		Private: own, Record: private.NewEndpointFile(o.Paths.Root, d.disk), Binary: private.Binary,
		Kubelet: func(endpoint string) (kubelet, err error) {
			if err = preflight.CheckKubelet("/proc", endpoint); errors.As(err, new(*preflight.KubeletError)) {
				return err, nil
			}
			return nil, err
		},
		Installation: private.SystemdInstallation,
	})
	if err != nil {
		return err
	}
	d.runtime, d.pulls = rt, cri.NewObservedPulls(rt.Client)
	mark, _ := wallclock.Now() // without the ID of the boot if it is not known
	d.images = imagestore.Open(imagestore.Config{
		Runtime: d.pulls, Mount: rt.Client.ImageMount, Containerd: rt.Client, Boot: mark.Boot,
		File: filepath.Join(o.Paths.Root, "image-additions.json"), Disk: d.disk, Log: d.log,
	})
	d.pullRecords = pullrecords.Open(
		pullrecords.Config{Dir: pullrecords.Dir(o.Paths.Root), Images: rt.Client, Disk: d.disk, Log: d.log})
	d.closeLater(rt.Client)
	if rt.Private != nil {
		used := driverSettings(&o.Cgroups).OfRuntime()
		o.Cgroups.Driver, o.Cgroups.DriverHint = used.Set, used.Hint
		d.start(rt.Private.Run)
	}
	return nil
}

// privateConfig returns the configuration of the private containerd.
func privateConfig(o *config.Options) private.Config {
	return private.Config{
		Root:       filepath.Join(o.Paths.Root, "containerd"),
		State:      filepath.Join(filepath.Dir(o.API.Socket), "containerd"),
		CNIConfDir: o.Runtime.CNIConfDir,
		CNIBinDirs: cniBinDirs,
		PauseImage: o.Runtime.PauseImage,
		PodCIDRs:   o.Network.PodCIDRs,

		SystemdCgroup: driverSettings(&o.Cgroups).UseSystemd(),
	}
}
