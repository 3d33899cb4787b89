package shutdown

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// terminateAll terminates the pods group by group. A group that does not terminate
// within its period goes on terminating during the next one; all remaining pods
// have killTime after the last one.
func (g *Guard) terminateAll(ctx context.Context) {
	begun, late := time.Now(), []types.UID(nil)
	g.cfg.Log.Info("Host is shutting down, terminating pods", "pods", len(g.cfg.Pods.RunningPriorities()), "at most",
		g.cfg.Policy.Total())
	for i, group := range g.cfg.Policy {
		members := g.members(i)
		if len(members) == 0 {
			continue
		}
		g.cfg.Pods.EndForShutdown(members, group.Period)
		if g.waitEnded(ctx, members, group.Period) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		late = append(late, members...)
		g.cfg.Log.Warn("Pods did not terminate within the period of their priority group", "priority", group.Priority,
			"period", group.Period)
	}
	ended := g.waitEnded(ctx, late, killTime)
	switch {
	case ctx.Err() != nil:
	case !ended:
		g.cfg.Log.Warn("Pods still running while the host shuts down", "pods", len(g.cfg.Pods.RunningPriorities()))
	default:
		g.cfg.Log.Info("All pods terminated before the host shuts down", "took", time.Since(begun).Round(time.Millisecond))
	}
}

// members returns the running pods of a group.
func (g *Guard) members(group int) (uids []types.UID) {
	for uid, priority := range g.cfg.Pods.RunningPriorities() {
		if g.cfg.Policy.group(priority) == group {
			uids = append(uids, uid)
		}
	}
	return uids
}

// waitEnded reports whether all pods terminated in time.
func (g *Guard) waitEnded(ctx context.Context, uids []types.UID, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return g.cfg.Pods.WaitAllEnded(ctx, uids) == nil
}
