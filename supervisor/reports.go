package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/event"
	"github.com/podstead/podstead/supervisor/podstart"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// reports is where a sync reports what happens to a pod: the log, events, metrics,
// and the source that waits for the pod to become ready.
type reports struct {
	log     *slog.Logger
	events  Recorder
	metrics Metrics
	// trace is Config.Trace.
	trace func(ctx context.Context, name string, pod *v1.Pod) (context.Context, func(error))
	// durations are how long pods took to start.
	durations *podstart.Durations
	// ready is called with each pod that becomes ready; may be nil.
	ready func(uid types.UID)
}

// operationOf returns the name under which the duration of a sync is counted, empty
// for a pod that only waits.
func operationOf(state podworkers.State, r *runState) string {
	switch state {
	case podworkers.Syncing:
		if r.synced {
			return "sync"
		}
		r.synced = true
		return "create"
	case podworkers.Terminating:
		return "kill"
	case podworkers.Terminated:
		return "cleanup"
	}
	return ""
}

// reportStatus reports what differs between two statuses of a run. before is nil
// for the first.
func (s *reports) reportStatus(a *attempt, before, now *v1.PodStatus) {
	// The first status of a run is the one to compare with: what exited before it
	// was logged by an earlier daemon. What exits because the whole pod terminates
	// is covered by the log of that.
	if before != nil && a.job.State == podworkers.Syncing {
		s.logExits(a, before.InitContainerStatuses, now.InitContainerStatuses)
		s.logExits(a, before.ContainerStatuses, now.ContainerStatuses)
		s.logExits(a, before.EphemeralContainerStatuses, now.EphemeralContainerStatuses)
	}
	if before != nil && before.Phase == v1.PodPending && now.Phase == v1.PodRunning && now.StartTime != nil {
		took := time.Since(now.StartTime.Time)
		s.metrics.PodStarted(took)
		s.durations.End(a.pod.UID, took)
	}
	was := a.run.ready
	a.run.ready = slices.ContainsFunc(now.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
	if a.run.ready && !was && s.ready != nil {
		s.ready(a.pod.UID)
	}
}

// logExits logs the exits of containers that the previous status did not show.
func (s *reports) logExits(a *attempt, before, now []v1.ContainerStatus) {
	known := map[string]bool{}
	for i := range before {
		for _, t := range terminations(&before[i]) {
			known[t.ContainerID] = true
		}
	}
	for i := range now {
		for _, t := range terminations(&now[i]) {
			// The event of a failed start covers a container that never ran.
			if t.ContainerID == "" || t.StartedAt.IsZero() || known[t.ContainerID] {
				continue
			}
			a.run.logged.exits++
			level := slog.LevelInfo
			if t.ExitCode != 0 {
				level = slog.LevelWarn
			}
			s.log.Log(context.Background(), level, "Container exited", "pod", podinfo.FullName(a.pod), "container", now[i].Name,
				"exitCode", t.ExitCode, "reason", t.Reason, "ran", t.FinishedAt.Sub(t.StartedAt.Time).Round(time.Second))
		}
	}
}

// terminations returns the terminated states that a container's status shows, the
// last one last.
func terminations(c *v1.ContainerStatus) []*v1.ContainerStateTerminated {
	var list []*v1.ContainerStateTerminated
	if t := c.LastTerminationState.Terminated; t != nil {
		list = append(list, t)
	}
	if t := c.State.Terminated; t != nil {
		list = append(list, t)
	}
	return list
}

// logKill logs that a pod is terminated, unless the sync loop has logged it. Each
// order is logged once.
func (s *reports) logKill(a *attempt) {
	kill, logged := a.job.Kill, &a.run.logged
	if logged.kill == kill {
		return
	}
	logged.kill = kill
	if kill != nil && (kill.Reason == podworkers.KillRemoved || kill.Reason == podworkers.KillOrphan) {
		return
	}
	s.log.Info("Terminating pod", "pod", podinfo.FullName(a.pod), "uid", a.pod.UID, "reason", a.killText(), "grace",
		a.job.Grace)
}

// logEnd logs that a pod has terminated, once a run and only if this daemon stopped
// something or saw it exit.
func (s *reports) logEnd(a *attempt) {
	r := a.run
	if r.logged.end || !r.kill.done && r.logged.exits == 0 {
		return
	}
	r.logged.end = true
	attrs := []any{"pod", podinfo.FullName(a.pod), "uid", a.pod.UID}
	if a.job.Kill == nil && r.previous != nil {
		attrs = append(attrs, "phase", r.previous.Phase)
	}
	s.log.Info("Pod terminated", attrs...)
}

// logError logs an error if it differs, IDs aside, from the last one of the pod. An
// error that an event reports is logged for debugging only.
func (s *reports) logError(ctx context.Context, a *attempt, result podworkers.SyncResult) {
	r, err := a.run, result.Err
	if err == nil {
		if a.job.State == podworkers.Syncing {
			r.logged.err = ""
		}
		return
	}
	kind := event.WithoutIDs(err.Error())
	if ctx.Err() != nil || errors.Is(err, errNetworkNotReady) || kind == r.logged.err {
		return
	}
	r.logged.err = kind
	level := slog.LevelWarn
	if result.EventSent {
		level = slog.LevelDebug
	}
	s.log.Log(ctx, level, "Failed to sync pod, retrying", "pod", podinfo.FullName(a.pod), "uid", a.pod.UID, "state",
		a.job.State, "err", err)
}
