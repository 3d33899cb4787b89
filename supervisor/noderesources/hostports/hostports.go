package hostports

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/hostsockets"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/noderesources"
)

// Recorder records events of pods.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Resource is the ports of the host.
type Resource struct {
	// Who has a port is decided with the reservations, which come first.
	noderesources.NeverRefuses
	// Rules make the rules of the host that are missing. They log what fails: a pod that does not start is
	// worse.
	Rules  []func(context.Context)
	Events Recorder
	// Proc is the mount of the proc file system.
	Proc string
}

// Name implements noderesources.Resource.
func (*Resource) Name() string { return "host ports" }

// Prepare implements noderesources.Preparer. The rules are made before each sandbox, because a reload of the
// host's firewall may have removed them. The pod also starts if a process of the host listens on its port, as
// with the kubelet: after a boot that may be one that is about to end.
func (r *Resource) Prepare(ctx context.Context, s *noderesources.Start) *noderesources.Refusal {
	ports := podinfo.HostPorts(s.Pod)
	if len(ports) == 0 || s.Pod.Spec.HostNetwork || s.Observed.UsableSandbox(false) != nil {
		return nil
	}
	for _, ensure := range r.Rules {
		ensure(ctx)
	}
	for _, l := range hostsockets.Find(r.Proc, ports) {
		r.Events.Event(s.Pod, v1.EventTypeWarning, "HostPortConflict", l.String())
	}
	return nil
}
