package supervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/podstead/podstead/cri"
)

// syncTerminatingPod ends everything of a pod that runs, and does not call it
// ended before a look newer than the kill has shown so.
func (s *podSyncer) syncTerminatingPod(ctx context.Context, j syncJob, r *runState) syncResult {
	uid := podUID(j)
	s.reservations.ending(uid)
	observed, err := s.observe(ctx, uid, r)
	if err != nil {
		return syncResult{err: err}
	}
	s.stopProbes(uid)
	s.setProbes(j.pod, observed, r.record)
	s.publish(j, r, observed, statusOverrides{terminal: s.disruptedEnd(j, r, observed)})
	// A sandbox that died by itself may still hold an address or host ports,
	// which a successor may want: when the pod has to go, it is stopped too.
	rest := j.kill != nil && !r.killed && len(observed.Sandboxes) > 0
	if !observed.Pod().Running() && !rest {
		return syncResult{}
	}
	if r.killLogged != j.kill {
		r.killLogged = j.kill
		s.logKill(j, r)
	}
	kill := cri.KillRequest{Pod: j.pod, Observed: observed.Pod(), Grace: j.grace, Reason: killText(j, r), HostIP: s.hostIP()}
	s.withStatusRefresh(ctx, j, r, observed, func() { err = s.cfg.Runtime.Syncer.Kill(ctx, kill) })
	s.noteAct(uid, r)
	if err != nil {
		return syncResult{err: fmt.Errorf("cannot end pod: %w", err)}
	}
	r.killed = true
	if observed, err = s.observe(ctx, uid, r); err != nil {
		return syncResult{err: err}
	}
	if observed.Pod().Running() {
		return syncResult{err: errors.New("cannot end pod: something of it still runs after it was stopped")}
	}
	s.publish(j, r, observed, statusOverrides{ended: true})
	return syncResult{}
}

// logKill tells that a pod is being ended, unless the sync loop has told it.
func (s *podSyncer) logKill(j syncJob, r *runState) {
	if j.kill != nil && (j.kill.reason == killRemoved || j.kill.reason == killOrphan) {
		return
	}
	s.cfg.Log.Info("pod is being ended", "pod", podName(j), "uid", podUID(j), "reason", killText(j, r), "grace", j.grace)
}

// killText is why a pod ends, for people.
func killText(j syncJob, r *runState) string {
	switch {
	case j.kill != nil:
		return j.kill.message
	case r.record.Reason == reasonDeadline:
		return deadlineText(j.pod)
	}
	return "its restartPolicy has ended it"
}
