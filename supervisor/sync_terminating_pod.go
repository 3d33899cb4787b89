package supervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// syncTerminatingPod ends everything of a pod that runs, and does not call it
// ended before a look newer than the kill has shown so.
func (s *podSyncer) syncTerminatingPod(ctx context.Context, j podworkers.SyncJob, r *runState) podworkers.SyncResult {
	uid := podUID(j)
	s.reservations.Terminating(uid)
	observed, err := s.observe(ctx, uid, r)
	if err != nil {
		return podworkers.SyncResult{Err: err}
	}
	s.stopProbes(uid)
	s.setProbes(j.Pod, observed, r.record)
	s.publish(j, r, observed, statusOverrides{terminal: s.disruptedEnd(j, r, observed)})
	// A sandbox that died by itself may still hold an address or host ports,
	// which a successor may want: when the pod has to go, it is stopped too.
	rest := j.Kill != nil && !r.killed && len(observed.Sandboxes) > 0
	if !observed.Pod().Running() && !rest {
		return podworkers.SyncResult{}
	}
	if r.killLogged != j.Kill {
		r.killLogged = j.Kill
		s.logKill(j, r)
	}
	kill := cri.KillRequest{Pod: j.Pod, Observed: observed.Pod(), Grace: j.Grace, Reason: killText(j, r), HostIP: s.hostIP()}
	s.withStatusRefresh(ctx, j, r, observed, func() { err = s.cfg.Runtime.Syncer.Kill(ctx, kill) })
	s.noteAct(uid, r)
	if err != nil {
		return podworkers.SyncResult{Err: fmt.Errorf("cannot end pod: %w", err)}
	}
	r.killed = true
	if observed, err = s.observe(ctx, uid, r); err != nil {
		return podworkers.SyncResult{Err: err}
	}
	if observed.Pod().Running() {
		return podworkers.SyncResult{Err: errors.New("cannot end pod: something of it still runs after it was stopped")}
	}
	s.publish(j, r, observed, statusOverrides{ended: true})
	return podworkers.SyncResult{}
}

// logKill tells that a pod is being ended, unless the sync loop has told it.
func (s *podSyncer) logKill(j podworkers.SyncJob, r *runState) {
	if j.Kill != nil && (j.Kill.Reason == podworkers.KillRemoved || j.Kill.Reason == podworkers.KillOrphan) {
		return
	}
	s.cfg.Log.Info("pod is being ended", "pod", podName(j), "uid", podUID(j), "reason", killText(j, r), "grace", j.Grace)
}

// killText is why a pod ends, for people.
func killText(j podworkers.SyncJob, r *runState) string {
	switch {
	case j.Kill != nil:
		return j.Kill.Message
	case r.record.Reason == reasonDeadline:
		return deadlineText(j.Pod)
	}
	return "its restartPolicy has ended it"
}
