package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri/private"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/firewall"
	"github.com/podstead/podstead/node/nameserver"
	"github.com/podstead/podstead/node/nameserver/keeper"
	"github.com/podstead/podstead/node/nameserver/zone"
)

const (
	// podDNSDomain is the domain of the names if no cluster domain is set.
	podDNSDomain = "cluster.local"
	// nameserverPort is the one on which the name server listens. Pods ask at port 53, which rules
	// of the firewall redirect: other name servers of the host may listen there on all addresses.
	nameserverPort = 10053
)

// podDNS is the name server for pods. It implements dns.Nameserver.
type podDNS struct {
	keeper *keeper.Keeper
	// given: new pods get it. Otherwise it runs for pods that got it before it was switched off.
	given bool
	// gateways are its addresses for pods with their own network, loopback that for the others;
	// the zero Addr without one.
	gateways []netip.Addr
	loopback netip.Addr
	domain   string
	firewall *firewall.PodDNS
	// networks are those of the pods.
	networks []netip.Prefix
	reach    reachability
	// noRules is why the rules of the firewall are not there.
	noRules atomic.Pointer[error]
}

// nameserverDir returns the directory of the name server, on the tmpfs of the API socket.
func nameserverDir(o *config.Options) nameserver.Directory {
	return nameserver.Directory(filepath.Join(filepath.Dir(o.API.Socket), "nameserver"))
}

// openNameserver starts the name server for pods, or finds the one that runs. Pods start without
// it too.
func (d *daemon) openNameserver(ctx context.Context) error {
	o := &d.opts.PodDNS
	dir := nameserverDir(d.opts)
	given := d.givesNameserver()
	if !given && !keeper.Runs(dir) {
		return nil
	}
	addresses, err := d.podDNSAddresses()
	if err != nil {
		if o.Mode == config.PodDNSAlways {
			d.reportNameserver(fmt.Errorf("the network of pods is not known: %w; set --pod-dns-address (podDNSAddresses)", err))
		}
		return nil
	}
	p := &podDNS{given: given, domain: d.opts.Network.ClusterDomain}
	if p.domain == "" {
		p.domain = podDNSDomain
	}
	settings := nameserver.Snapshot{Domain: p.domain, Port: nameserverPort, ResolvConf: d.opts.Network.ResolvConf}
	for _, a := range addresses {
		p.gateways = append(p.gateways, a.Addr())
		settings.Clients = append(settings.Clients, a.Masked())
		if a.Addr().Is4() && !p.loopback.IsValid() {
			p.loopback = loopbackOf(a.Addr())
		}
	}
	settings.Listen = slices.Clone(p.gateways)
	if p.loopback.IsValid() {
		settings.Listen = append(settings.Listen, p.loopback)
	}
	p.networks = settings.Clients
	p.firewall = firewall.NewPodDNS(firewall.PodDNSConfig{Addresses: addresses, Loopback: p.loopback, Port: nameserverPort})
	p.keeper = keeper.New(keeper.Config{Dir: dir, Settings: settings, Command: nameserverArgs(dir), Changed: d.reportNameserver, Log: d.log})
	d.podDNS = p
	// Before the first pod, whose resolv.conf depends on it. Changed has reported an error.
	_ = p.keeper.Start(ctx)
	p.ensureFirewall(ctx, d.log)
	d.start(p.keeper.Run)
	return nil
}

// givesNameserver reports whether new pods get the name server.
func (d *daemon) givesNameserver() bool {
	o := d.opts
	switch {
	case o.PodDNS.Mode == config.PodDNSNever, len(o.Network.ClusterDNS) > 0:
		return false
	case o.PodDNS.Mode == config.PodDNSAlways:
		return true
	}
	if d.runtime.private == nil {
		return false
	}
	_, own, err := d.runtime.private.Network()
	if err != nil {
		d.log.Warn("Failed to find the network of the private containerd, pods do not resolve the names of other pods", "err", err)
	}
	return own
}

// podDNSAddresses returns the addresses of this host in the networks of pods.
func (d *daemon) podDNSAddresses() ([]netip.Prefix, error) {
	if set := d.opts.PodDNS.Addresses; len(set) > 0 {
		return set, nil
	}
	dir := d.opts.Runtime.CNIConfDir
	if d.runtime.private != nil {
		var err error
		if dir, _, err = d.runtime.private.Network(); err != nil {
			return nil, err
		}
	}
	return private.Gateways(dir)
}

// loopbackOf returns the loopback address that stands for an address of the pod network: pods on
// the host's network reach it also before the bridge exists.
func loopbackOf(gateway netip.Addr) netip.Addr {
	b := gateway.As4()
	b[0] = 127
	return netip.AddrFrom4(b)
}

// reportNameserver records that the name server cannot be reached, or that it can.
func (d *daemon) reportNameserver(err error) {
	const what = "the name server of pods"
	listenerReporter(&d.observers)(what, wrapListener(what, err))
	if err != nil {
		d.log.Warn("Name server of pods is not available, pods that start now get the node's name servers", "err", err)
	} else {
		d.log.Info("Name server of pods is available")
	}
}

// wrapListener says which listener failed; nil for none.
func wrapListener(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot open %s, retrying; pods that start now get the node's name servers and do not resolve the names of other pods: %w", what, err)
}

// Addresses implements dns.Nameserver.
func (p *podDNS) Addresses(hostNetwork bool) ([]string, error) {
	addresses := p.gateways
	if err := p.noRules.Load(); err != nil && *err != nil {
		return nil, *err
	}
	if err := p.reach.result(); err != nil && !hostNetwork {
		return nil, err
	}
	if hostNetwork && p.loopback.IsValid() {
		addresses = []netip.Addr{p.loopback}
	}
	var reached []string
	for _, a := range addresses {
		if p.keeper.Listening(a) {
			reached = append(reached, a.String())
		}
	}
	if len(reached) > 0 {
		return reached, nil
	}
	status, running := p.keeper.Status()
	for _, a := range addresses {
		if why := status.Failed[a.String()]; running && why != "" {
			return nil, errors.New(why)
		}
	}
	return nil, errors.New("it does not run")
}

// ensureFirewall installs the rules that lead the queries of pods to the name server. Pods that
// start without them get the node's name servers.
func (p *podDNS) ensureFirewall(ctx context.Context, log *slog.Logger) {
	err := p.firewall.Ensure(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		err = fmt.Errorf("the rules that lead the queries of pods to it cannot be installed: %w", err)
		log.Warn("Name server of pods is not available, pods that start now get the node's name servers; install iptables, or set --pod-dns=never (podDNS)", "err", err)
	}
	p.noRules.Store(&err)
}

// podDNSReady returns what reports whether pods that start now get the name server; nil without
// one.
func (d *daemon) podDNSReady() func() bool {
	if d.podDNS == nil || !d.podDNS.given {
		return nil
	}
	return func() bool {
		_, err := d.podDNS.Addresses(false)
		return err == nil
	}
}

// Domain implements dns.Nameserver.
func (p *podDNS) Domain() string { return p.domain }

// publishNames writes the names of pods and Services when they change. The first time is once all
// pods are known: until then, the names of before the daemon's start are right.
func (d *daemon) publishNames(ctx context.Context) error {
	if err := d.sup.WaitSourcesReady(ctx); err != nil {
		return err
	}
	statuses, unsubscribe := d.observers.statuses.Subscribe()
	defer unsubscribe()
	objects, unsubscribeObjects := d.sources.config.Objects().Subscribe()
	defer unsubscribeObjects()
	var failed string
	before := d.podDNS.keeper.Zone()
	for {
		z := zone.Build(d.podDNS.domain, d.namedPods(before), d.sources.config.Objects().Services())
		if err := d.podDNS.keeper.Publish(z); err != nil {
			if failed != err.Error() {
				d.log.Warn("Failed to publish the names of pods, retrying at the next change", "err", err)
			}
			failed = err.Error()
		}
		d.checkReachable(ctx)
		select {
		case <-statuses:
		case <-objects:
		case <-ctx.Done():
			return nil
		}
	}
}

// warnOfServices reports once that Services have no effect, on a node whose pods have no name
// server for them.
func (d *daemon) warnOfServices(ctx context.Context) error {
	objects := d.sources.config.Objects()
	changed, unsubscribe := objects.Subscribe()
	defer unsubscribe()
	for len(objects.Services()) == 0 {
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
	const message = "The Services among the manifests have no effect, because the pods of this node have no name server for them; set --pod-dns=always (podDNS)"
	d.log.Warn(message)
	d.observers.events.Event(nil, v1.EventTypeWarning, "ServiceWithoutNameserver", message)
	return nil
}

// namedPods returns the pods that have names. A pod whose status is not known yet, since the
// daemon has just started, has the addresses of before.
func (d *daemon) namedPods(before zone.Zone) (pods []zone.Pod) {
	for _, pod := range d.sup.Pods() {
		if !podinfo.PolicyOf(pod).Static {
			continue
		}
		named := zone.Pod{Pod: pod, Base: manifest.BaseName(pod)}
		if len(pod.Status.Conditions) == 0 && pod.DeletionTimestamp == nil {
			named.Pod = withAddresses(pod, before.Names[zone.Name(named.Base, pod.Namespace, d.podDNS.domain)].Addresses)
		}
		pods = append(pods, named)
	}
	return pods
}

// withAddresses returns a copy of a pod that is Ready with these addresses; the pod itself
// without any.
func withAddresses(pod *v1.Pod, addresses []netip.Addr) *v1.Pod {
	if len(addresses) == 0 {
		return pod
	}
	copied := *pod
	copied.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	copied.Status.PodIPs = nil
	for _, a := range addresses {
		copied.Status.PodIPs = append(copied.Status.PodIPs, v1.PodIP{IP: a.String()})
	}
	return &copied
}
