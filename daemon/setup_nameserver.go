package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri/private"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/nameserver"
	"github.com/podstead/podstead/node/nameserver/keeper"
	"github.com/podstead/podstead/node/nameserver/poddns"
)

// nameserverDir returns the directory of the name server, on the tmpfs of the API socket.
func nameserverDir(o *config.Options) nameserver.Directory {
	return nameserver.Directory(filepath.Join(filepath.Dir(o.API.Socket), "nameserver"))
}

// openNameserver starts the name server for pods, or finds the one that runs. Pods start without
// it too.
func (d *daemon) openNameserver(ctx context.Context) error {
	o, dir := d.opts, nameserverDir(d.opts)
	given, onListener := d.givesNameserver(), listenerReporter(&d.observers)
	if !given && !keeper.Runs(dir) {
		return nil
	}
	addresses, err := d.podDNSAddresses()
	if err != nil {
		if o.PodDNS.Mode == config.PodDNSAlways {
			poddns.Report(fmt.Errorf("the network of pods is not known: %w; set --pod-dns-address (podDNSAddresses)", err),
				onListener, d.log)
		}
		return nil
	}
	d.podDNS = poddns.New(poddns.Config{
		Directory: dir, Given: given, Addresses: addresses, Domain: o.Network.ClusterDomain, ResolvConf: o.Network.ResolvConf,
		Command: nameserverArgs(dir), OnListener: onListener, Events: d.observers.events, Log: d.log,
	})
	d.podDNS.Start(ctx)
	d.start(d.podDNS.Run)
	return nil
}

// givesNameserver reports whether new pods get the name server.
func (d *daemon) givesNameserver() bool {
	gives, err := givesNameserver(d.opts, d.runtime.Private != nil)
	if err != nil {
		d.log.Warn("Failed to find the network of the private containerd, pods do not resolve the names of other pods", "err",
			err)
	}
	return gives
}

// givesNameserver reports whether a daemon with these options gives new pods the name server.
func givesNameserver(o *config.Options, ownRuntime bool) (bool, error) {
	switch {
	case o.PodDNS.Mode == config.PodDNSNever, len(o.Network.ClusterDNS) > 0:
		return false, nil
	case o.PodDNS.Mode == config.PodDNSAlways:
		return true, nil
	case !ownRuntime:
		return false, nil
	}
	_, own, err := privateConfig(o).Network()
	return own, err
}

// podDNSAddresses returns the addresses of this host in the networks of pods.
func (d *daemon) podDNSAddresses() ([]netip.Prefix, error) {
	if set := d.opts.PodDNS.Addresses; len(set) > 0 {
		return set, nil
	}
	dir := d.opts.Runtime.CNIConfDir
	if d.runtime.Private != nil {
		var err error
		if dir, _, err = privateConfig(d.opts).Network(); err != nil {
			return nil, err
		}
	}
	return private.Gateways(dir)
}

// startNames publishes the names of pods and Services, or warns of Services that have no effect.
func (d *daemon) startNames() {
	objects := d.sources.config.Objects()
	services := poddns.Services{List: objects.Services, Changed: objects.Subscribe}
	if d.podDNS != nil {
		names := poddns.Names{
			Known: d.sup.WaitSourcesReady, Pods: d.sup.Pods, BaseName: manifest.BaseName,
			PodsChanged: d.observers.statuses.Subscribe,
			Namespace:   d.networkNamespace, Services: services,
		}
		d.start(func(ctx context.Context) error { return d.podDNS.Publish(ctx, names) })
	}
	if d.podDNS == nil || !d.podDNS.Given() {
		d.start(func(ctx context.Context) error {
			return poddns.WarnOfServices(ctx, services, d.observers.events, d.log)
		})
	}
}

// networkNamespace returns the path of the network namespace of a pod.
func (d *daemon) networkNamespace(ctx context.Context, pod *v1.Pod) (string, error) {
	st, _ := d.observers.pleg.Status(pod.UID)
	sandbox := st.ReadySandbox()
	if sandbox == nil {
		return "", errors.New("the pod does not run any more")
	}
	return d.runtime.Client.NetworkNamespace(ctx, sandbox.ID)
}
