package daemon

import (
	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/noderesources/assigned"
	"github.com/podstead/podstead/supervisor/noderesources/cgroups"
	"github.com/podstead/podstead/supervisor/noderesources/claims"
	"github.com/podstead/podstead/supervisor/noderesources/devices"
)

// nodeResources is what a pod needs of this node, in the order in which it is admitted and prepared. What
// the node does not have is not in it. docs/howto/node-resource.md says how to add a resource.
func (d *daemon) nodeResources(
	own *supervisor.OwnResources, managers assigned.Manager, cgroup *cgroup.Cgroups,
) []noderesources.Resource {
	list := []noderesources.Resource{own.Reservations}
	if managers != nil {
		list = append(list, assigned.New(managers))
	}
	list = append(list, devices.New(d.devices))
	if d.claims != nil {
		list = append(list, claims.New(d.claims))
	}
	return append(list, cgroups.New(cgroup, d.observers.pleg.Observed), own.Volumes, own.Probes, own.Logs)
}
