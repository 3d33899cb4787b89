package firewall

import (
	"context"
	"log/slog"
)

// LocalnetDir contains the setting route_localnet of each interface.
const LocalnetDir = "/proc/sys/net/ipv4/conf"

// LoopbackGuard keeps pods and neighbors away from services of the host that listen only on
// loopback addresses. Pods run without the rule too: a pod that does not start is
// worse than a host as it was before.
type LoopbackGuard struct {
	Rule *Localnet
	Log  *slog.Logger
}

// Ensure installs the rule if it is missing. It is called before each sandbox with host ports
// is created, because the CNI plugin enables route_localnet meanwhile, and because a reload of
// the host's firewall may have removed the rule since the last one.
func (g LoopbackGuard) Ensure(ctx context.Context) {
	if err := g.Rule.Ensure(ctx); err != nil && ctx.Err() == nil {
		g.Log.Warn("Failed to install the rule that protects loopback addresses; host ports let pods and neighbors of this "+
			"host reach services that listen only on 127.0.0.1; install iptables with conntrack, or close them in the host's "+
			"firewall", "err", err)
	}
}

// Run installs the rule at the start, if an interface has route_localnet already.
func (g LoopbackGuard) Run(ctx context.Context) error {
	if len(Enabled(LocalnetDir)) > 0 {
		g.Ensure(ctx)
	}
	return nil
}
