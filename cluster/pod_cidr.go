package cluster

import (
	"context"
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// podCIDR is what the runtime has of the address ranges of the node's pods. Only the node
// loop uses it.
type podCIDR struct {
	set, logged string
	// refusedBy is the version of a runtime that has no such call. It is not asked again;
	// another version is.
	refusedBy string
}

// updatePodCIDR gives the runtime the address ranges that the cluster assigned to the node,
// if it has others. A failure is logged once and retried with the next check of the node.
func (a *Adapter) updatePodCIDR(ctx context.Context, local, registered *v1.Node) {
	ranges, runtime := strings.Join(registered.Spec.PodCIDRs, ","), local.Status.NodeInfo.ContainerRuntimeVersion
	if a.cfg.UpdatePodCIDR == nil || ranges == "" || ranges == a.podCIDR.set || a.podCIDR.refusedBy != "" && a.podCIDR.refusedBy == runtime {
		return
	}
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := a.cfg.UpdatePodCIDR(request, ranges)
	switch {
	case err == nil:
		a.podCIDR = podCIDR{set: ranges}
		a.cfg.Log.Info("Pod CIDR of the runtime updated", "podCIDR", ranges)
	case ctx.Err() != nil: // the adapter ends
	case errors.Is(err, errors.ErrUnsupported):
		a.podCIDR = podCIDR{refusedBy: runtime}
		a.cfg.Log.Warn("The container runtime takes no pod CIDR; the configuration of its network must have the range", "podCIDR", ranges, "runtime", runtime, "err", err)
	case err.Error() != a.podCIDR.logged:
		a.podCIDR.logged = err.Error()
		a.cfg.Log.Warn("Failed to update pod CIDR of the runtime, retrying", "podCIDR", ranges, "err", err)
	}
}
