package supervisor

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/supervisor/podworkers"
)

// logExits logs the ends of containers that the status before did not show.
// The first status of a run is the one to compare with: what ended before it
// was told by an earlier daemon, or by nobody. What ends because the whole pod
// is being ended is told with that.
func (s *podSyncer) logExits(j podworkers.SyncJob, r *runState, now *v1.PodStatus) {
	before := r.previous
	if before == nil || j.State != podworkers.Syncing {
		return
	}
	s.logExitsOf(j, r, before.InitContainerStatuses, now.InitContainerStatuses)
	s.logExitsOf(j, r, before.ContainerStatuses, now.ContainerStatuses)
	s.logExitsOf(j, r, before.EphemeralContainerStatuses, now.EphemeralContainerStatuses)
}

func (s *podSyncer) logExitsOf(j podworkers.SyncJob, r *runState, before, now []v1.ContainerStatus) {
	known := map[string]bool{}
	for i := range before {
		for _, t := range ends(&before[i]) {
			known[t.ContainerID] = true
		}
	}
	for i := range now {
		for _, t := range ends(&now[i]) {
			// One that never ran is told by the event of its failed start.
			if t.ContainerID == "" || t.StartedAt.IsZero() || known[t.ContainerID] {
				continue
			}
			r.loggedExits++
			level := slog.LevelInfo
			if t.ExitCode != 0 {
				level = slog.LevelWarn
			}
			s.cfg.Log.Log(context.Background(), level, "container has ended", "pod", podName(j), "container", now[i].Name,
				"code", t.ExitCode, "reason", t.Reason, "ran", t.FinishedAt.Sub(t.StartedAt.Time).Round(time.Second))
		}
	}
}

// ends are the ends that a container's status shows, the last one last.
func ends(c *v1.ContainerStatus) []*v1.ContainerStateTerminated {
	var list []*v1.ContainerStateTerminated
	if t := c.LastTerminationState.Terminated; t != nil {
		list = append(list, t)
	}
	if t := c.State.Terminated; t != nil {
		list = append(list, t)
	}
	return list
}

// ended is the outcome of a pod that its restartPolicy or its deadline has
// ended. It is written down before anything else happens: from here on neither
// a daemon that is restarted nor a runtime that has lost everything runs it
// again.
func (s *podSyncer) ended(j podworkers.SyncJob, r *runState) podworkers.SyncResult {
	s.save(j.Pod.UID, r)
	if r.record.Reason == reasonDeadline {
		s.cfg.Events.Event(j.Pod, v1.EventTypeNormal, reasonDeadline, deadlineMessage)
	}
	return podworkers.SyncResult{Ended: true, Disrupted: r.record.Disruption != nil}
}

// logEnd logs that a pod has ended, once a run and only if this daemon ended
// something or saw it end.
func (s *podSyncer) logEnd(j podworkers.SyncJob, r *runState) {
	if r.endLogged || !r.killed && r.loggedExits == 0 {
		return
	}
	r.endLogged = true
	attrs := []any{"pod", podName(j), "uid", podUID(j)}
	if j.Kill == nil && r.previous != nil {
		attrs = append(attrs, "phase", r.previous.Phase)
	}
	s.cfg.Log.Info("pod has ended", attrs...)
}
