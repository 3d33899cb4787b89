package daemon

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/hostsockets"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/node/firewall"
)

// localnetDir contains the setting route_localnet of each interface.
const localnetDir = "/proc/sys/net/ipv4/conf"

// loopbackGuard keeps pods and neighbors away from services of the host that listen only on
// loopback addresses. Pods run without the rule too: a pod that does not start is
// worse than a host as it was before.
type loopbackGuard struct {
	rule *firewall.Localnet
	log  *slog.Logger
}

// ensure installs the rule if it is missing. It is called before each sandbox with host ports
// is created, because the CNI plugin enables route_localnet meanwhile, and because a reload of
// the host's firewall may have removed the rule since the last one.
func (g loopbackGuard) ensure(ctx context.Context) {
	if err := g.rule.Ensure(ctx); err != nil && ctx.Err() == nil {
		g.log.Warn("Failed to install the rule that protects loopback addresses; host ports let pods and neighbors of this host reach services that listen only on 127.0.0.1; install iptables with conntrack, or close them in the host's firewall", "err", err)
	}
}

// ensureAll also installs the rules for the name server of pods, if there is one: before a pod
// with the host port 53 would take its queries.
func (g loopbackGuard) ensureAll(ctx context.Context, dns *podDNS) {
	g.ensure(ctx)
	if dns != nil {
		dns.ensureFirewall(ctx, g.log)
	}
}

// run installs the rule at the start, if an interface has route_localnet already.
func (g loopbackGuard) run(ctx context.Context) error {
	if len(firewall.Enabled(localnetDir)) > 0 {
		g.ensure(ctx)
	}
	return nil
}

// warnOfListeners records an event for each host port of a pod on which a process of the host
// listens. The pod still starts, as with the kubelet: after a boot the process may be one that
// is about to end, and a pod that does not start is worse.
func warnOfListeners(events eventRecorder, pod *v1.Pod) {
	var ports []hostsockets.Port
	for _, p := range podinfo.HostPorts(pod) {
		ports = append(ports, hostsockets.Port{IP: p.IP, Protocol: string(p.Protocol), Number: p.Number})
	}
	for _, l := range hostsockets.Find("/proc", ports) {
		events.Event(pod, v1.EventTypeWarning, "HostPortConflict", l.String())
	}
}
