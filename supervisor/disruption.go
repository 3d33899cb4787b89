package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// Errors of a displacement.
var (
	errNotRunning = errors.New("it does not run")
	errEnding     = errors.New("it is ending already")
)

// Ended reports whether everything of a pod has ended: nothing of it runs, its
// volumes are down and its cgroup is gone. It is false for a pod that is not
// known, or waits to run.
func (s *Supervisor) Ended(uid types.UID) bool { return s.workers.state(uid) == stateFinished }

// Displace ends the run of a pod for the node's own sake, within grace seconds,
// or the pod's own grace period if that is nil. The pod is Failed from now on
// with the reason and the message, and has the condition DisruptionTarget, until
// Config.Returns lets it run again. That is written down: a restart of the daemon
// neither loses the pod nor runs it at once. A pod of an API server does not run
// again. Displace does not wait; WaitEnded does.
func (s *Supervisor) Disrupt(uid types.UID, d status.Disruption, grace *int64) error {
	return s.workers.displace(uid, d, grace)
}

// WaitEnded waits until the present run of a pod has ended: nothing of it runs,
// its volumes are down and its cgroup is gone. It is nil at once for a pod that
// does not run, and the context's error if that ends first.
func (s *Supervisor) WaitEnded(ctx context.Context, uid types.UID) error {
	select {
	case <-s.workers.endOf(uid):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WakeDisplaced asks Config.Returns about each displaced pod.
func (s *Supervisor) RetryDisrupted() {
	s.workers.wakeIf(func(w *worker) bool { return w.displaced && w.state == stateFinished })
}

// WakeHeld asks the gates about each pod that waits.
func (s *Supervisor) RetryHeld() { s.workers.wakeHeld() }

func (p *podWorkers) displace(uid types.UID, d status.Disruption, grace *int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	switch {
	case !ok:
		return fmt.Errorf("cannot end pod %s: %w", uid, errUnknownPod)
	case w.state == stateQueued, w.state == stateFinished:
		return fmt.Errorf("cannot end pod %s: %w", w.name, errNotRunning)
	case w.state != stateSyncing:
		return fmt.Errorf("cannot end pod %s: %w", w.name, errEnding)
	}
	if d.At.IsZero() {
		d.At = time.Now()
	}
	p.end(w, onKill, killOrder{reason: killDisplaced, message: d.Message, grace: grace, displaced: &d})
	return nil
}

// endOf is closed when the present run of a pod has ended.
func (p *podWorkers) endOf(uid types.UID) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := make(chan struct{})
	if w, ok := p.byUID[uid]; ok && w.holdsName() {
		w.waiters = append(w.waiters, ended)
	} else {
		close(ended)
	}
	return ended
}

// tellEnded wakes those who wait for the end of the run.
func (w *worker) tellEnded() {
	for _, waiter := range w.waiters {
		close(waiter)
	}
	w.waiters = nil
}

// displace is the end that the node puts to a pod, nil if it does not. A pod
// that had come to its own end before keeps that.
func (s *podSyncer) disruptedEnd(j syncJob, r *runState, observed *cri.PodStatus) *status.Terminal {
	if j.kill == nil || j.kill.displaced == nil || r.record.Terminal() {
		return nil
	}
	d := *j.kill.displaced
	r.record.Disruption = &d
	r.record.Rejected = podinfo.IsAPI(j.pod) && len(observed.Containers) == 0
	s.cfg.Metrics.PodDisrupted(d.Reason, d.Signal)
	s.cfg.Events.Event(j.pod, v1.EventTypeWarning, d.Reason, d.Message)
	return &status.Terminal{Phase: v1.PodFailed, Cause: status.Cause{Reason: d.Reason, Message: d.Message}}
}

// orRestart lets a displaced pod run again if its time has come. The record tells
// which are: the daemon may have been restarted since.
func (o syncResult) orRestart(s *podSyncer, j syncJob, r *runState) syncResult {
	d := r.record.Disruption
	if o.err != nil || d == nil || podinfo.IsAPI(j.pod) {
		return o
	}
	o.restart, o.after = s.registry.mayRestart(j.pod, *d)
	return o
}
