package daemon

import (
	"context"

	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/firewall"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/noderesources/assigned"
	"github.com/podstead/podstead/supervisor/noderesources/cgroups"
	"github.com/podstead/podstead/supervisor/noderesources/claims"
	"github.com/podstead/podstead/supervisor/noderesources/devices"
	"github.com/podstead/podstead/supervisor/noderesources/hostports"
)

// nodeResources is what a pod needs of this node, in the order in which it is admitted and prepared. What
// the node does not have is not in it. docs/howto/node-resource.md reports how to add a resource.
func (d *daemon) nodeResources(own *supervisor.OwnResources, cgroup *cgroup.Cgroups) []noderesources.Resource {
	list := []noderesources.Resource{own.Reservations}
	if d.managers != nil {
		list = append(list, assigned.New(d.managers))
	}
	list = append(list, devices.New(d.devices))
	if d.claims != nil {
		list = append(list, claims.New(d.claims))
	}
	return append(list, cgroups.New(cgroup, d.observers.pleg.Observed), own.Volumes, d.hostPorts(), own.Probes, own.Logs)
}

// hostPorts is the host's ports for pods, with the rules that they need.
func (d *daemon) hostPorts() *hostports.Resource {
	guard := firewall.LoopbackGuard{Rule: firewall.NewLocalnet(nil), Log: d.log}
	d.start(guard.Run)
	ports := &hostports.Resource{Rules: []func(context.Context){guard.Ensure}, Events: d.observers.events, Proc: "/proc"}
	if d.podDNS != nil {
		// Before a pod with the host port 53 would take the queries of the others.
		ports.Rules = append(ports.Rules, d.podDNS.EnsureFirewall)
	}
	return ports
}
