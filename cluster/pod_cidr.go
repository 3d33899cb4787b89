package cluster

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// podCIDR is what the runtime has of the address ranges of the node's pods. Only the node
// loop uses it.
type podCIDR struct{ set, logged string }

// updatePodCIDR gives the runtime the address ranges that the cluster assigned to the node,
// if it has others. A failure is logged once and retried with the next check of the node.
func (a *Adapter) updatePodCIDR(ctx context.Context, registered *v1.Node) {
	ranges := strings.Join(registered.Spec.PodCIDRs, ",")
	if a.cfg.UpdatePodCIDR == nil || ranges == "" || ranges == a.podCIDR.set {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := a.cfg.UpdatePodCIDR(ctx, ranges); err != nil {
		if text := err.Error(); ctx.Err() == nil && text != a.podCIDR.logged {
			a.podCIDR.logged = text
			a.cfg.Log.Warn("Failed to update pod CIDR of the runtime, retrying", "podCIDR", ranges, "err", err)
		}
		return
	}
	a.podCIDR = podCIDR{set: ranges}
	a.cfg.Log.Info("Pod CIDR of the runtime updated", "podCIDR", ranges)
}
