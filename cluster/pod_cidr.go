package cluster

import (
	"context"
	"errors"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// podCIDR is what the runtime has of the address ranges of the node's pods. Only the node
// loop uses it.
type podCIDR struct {
	set, logged string
	// refusedBy is the version of a runtime that has no such call. It is not asked again;
	// another version is.
	refusedBy string
	// failed are the ranges and the runtime of the last attempts, which failed, with the
	// condition of the node. The next one for them is not made before retryAt, and the one
	// after it takes twice as long.
	failed  string
	retryAt time.Time
	wait    time.Duration
}

// An attempt that failed is repeated after 10 s, and then after twice as long each time, up to
// 5 minutes: a runtime that has its ranges from elsewhere may refuse them forever.
const (
	podCIDRRetry    = 10 * time.Second
	podCIDRRetryMax = 5 * time.Minute
)

// updatePodCIDR gives the runtime the address ranges that the cluster assigned to the node,
// if it has others, once the runtime has responded. A failure is logged once and retried with
// a later check of the node.
func (a *Adapter) updatePodCIDR(ctx context.Context, local, registered *v1.Node) {
	ranges, runtime := strings.Join(registered.Spec.PodCIDRs, ","), local.Status.NodeInfo.ContainerRuntimeVersion
	if a.cfg.UpdatePodCIDR == nil || ranges == "" || ranges == a.podCIDR.set || runtime == "" ||
		a.podCIDR.refusedBy == runtime {
		return
	}
	attempt := strings.Join([]string{ranges, runtime, readyMessage(local)}, " ")
	if a.podCIDR.failed == attempt && time.Now().Before(a.podCIDR.retryAt) {
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
		a.cfg.Log.Warn("The container runtime takes no pod CIDR; the configuration of its network must have the range",
			"podCIDR", ranges, "runtime", runtime, "err", err)
	default:
		a.podCIDR.postpone(attempt)
		if err.Error() != a.podCIDR.logged {
			a.podCIDR.logged = err.Error()
			a.cfg.Log.Warn("Failed to update pod CIDR of the runtime, retrying", "podCIDR", ranges, "err", err)
		}
	}
}

// readyMessage returns why a node is ready or not: of a runtime that is asked in vain it changes
// when that ends.
func readyMessage(n *v1.Node) string {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c.Message
		}
	}
	return ""
}

// postpone sets when an attempt that failed is repeated.
func (p *podCIDR) postpone(attempt string) {
	if p.failed != attempt {
		p.failed, p.wait = attempt, podCIDRRetry
	}
	p.retryAt, p.wait = time.Now().Add(p.wait), min(2*p.wait, podCIDRRetryMax)
}
