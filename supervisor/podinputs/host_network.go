package podinputs

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/supervisor/status"
)

// How long after the boot of the host pods wait for its network at most. A network comes up
// seconds after the daemon, and a pod that starts before it would have no name servers as long as
// it lives, or fail to pull its image and back off. Without a network pods start nevertheless.
const (
	// addressWait is short, since a pod without an address of the node lacks nothing else.
	addressWait = 30 * time.Second
	// nameServerWait is as long as systemd waits for a network to be online.
	nameServerWait = 2 * time.Minute
)

// AwaitedNetwork explains why a pod should not start yet, shortly after the boot of the host; nil
// if it can. It has to be asked again.
func (r *Resolver) AwaitedNetwork(pod *v1.Pod) *status.Cause {
	if r.cfg.Uptime == nil {
		return nil
	}
	up := r.cfg.Uptime()
	if r.cfg.HostIPs != nil && up < addressWait && len(r.hostIPs()) == 0 {
		return &status.Cause{Reason: ReasonWaitingForNetwork, Message: "the host has booted and has no default route yet; " +
			"the pod starts when it has, or " + addressWait.String() + " after the boot"}
	}
	if up < nameServerWait && r.cfg.DNS.Missing(pod) {
		return &status.Cause{Reason: ReasonWaitingForNetwork, Message: "the host has booted and has no name servers yet; " +
			"the pod starts when it has, or " + nameServerWait.String() +
			" after the boot; one with dnsPolicy: None does not wait"}
	}
	return nil
}
