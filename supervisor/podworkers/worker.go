package podworkers

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/wakeup"
)

// worker is what is known of one UID: the state of its run and what it is asked to
// do. Its fields are guarded by Workers.mu. One goroutine acts on it, one sync at a
// time.
type worker struct {
	uid types.UID
	// notified tells the goroutine that the worker is dirty.
	notified wakeup.Signal

	state State
	run
	// name is the full name that the run waits for or holds.
	name string
	// desired: a source wants the pod.
	desired bool
	// pod is the newest revision.
	pod *v1.Pod
	// notBefore is when a queued run may start; zero is at once.
	notBefore time.Time

	// dirty: there is something to sync.
	dirty bool
	// pauseReported: a job of this pause has reported what the end of the run waits for.
	pauseReported bool
	// failures counts the failed syncs in a row.
	failures int
	// waiters are closed when the run has ended.
	waiters []chan struct{}
	// cancel ends the sync in flight; nil if there is none.
	cancel context.CancelFunc
}

// run is what belongs to one run of a worker. A new run begins with the zero value
// and the next number.
type run struct {
	// number counts the runs of a UID, from 0.
	number int
	// acting is the revision that the run was last synced with. It differs from
	// worker.pod while an old revision ends.
	acting *v1.Pod
	// found is what is known of an orphan.
	found *v1.Pod
	// kill is the first decision that ended the run. grace is in seconds, nil until
	// there was a decision, and only shrinks. endedAt is the time of the decision.
	kill    *KillOrder
	grace   *int64
	endedAt time.Time
	// removalGrace replaces the grace period of the pod, in seconds, when its source removes it.
	removalGrace *int64
	// restart is set while a run that ends is to be followed by another.
	restart *restartRequest
	// held: the run waits for something outside of this daemon. retrying: its last
	// sync failed. disrupted: the node has ended it for its own sake.
	held, retrying, disrupted bool
}

// restartRequest requests another run after this one.
type restartRequest struct {
	// notBefore is the earliest time at which it starts; zero is at once.
	notBefore time.Time
}

// holdsName reports whether the run has started and not yet finished: until
// then no other pod of its full name may start.
func (w *worker) holdsName() bool {
	return w.state == Syncing || w.state == Terminating || w.state == Terminated
}

// ownGrace returns the grace period, in seconds, that the pod itself asks for.
func (w *worker) ownGrace() int64 {
	pod := w.acting
	if pod == nil {
		pod = w.pod
	}
	switch {
	case pod == nil && w.grace != nil:
		return *w.grace
	case pod == nil:
		return v1.DefaultTerminationGracePeriodSeconds
	case pod.DeletionGracePeriodSeconds != nil:
		return *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return v1.DefaultTerminationGracePeriodSeconds
}

// notifyEnded notifies those that wait for the end of the run.
func (w *worker) notifyEnded() {
	for _, waiter := range w.waiters {
		close(waiter)
	}
	w.waiters = nil
}

// loop is the goroutine of a worker. It returns when the worker is forgotten or the
// daemon stops.
func (p *Workers) loop(ctx context.Context, w *worker) {
	sync := p.newSync()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.notified.C():
		}
		for {
			j, jobCtx, cancel, ok := p.nextJob(ctx, w)
			if !ok {
				break
			}
			result := sync(jobCtx, j)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if p.complete(w, j, result) {
				return
			}
		}
	}
}

// nextJob starts the next job of a worker, if it has one.
func (p *Workers) nextJob(ctx context.Context, w *worker) (SyncJob, context.Context, context.CancelFunc, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	report := p.paused && w.state == Terminating && !w.pauseReported
	if !w.dirty || p.paused && !report || ctx.Err() != nil {
		return SyncJob{}, nil, nil, false
	}
	// A worker that only reports still has its sync to do after the pause.
	w.dirty, w.pauseReported = report, report
	p.queue.remove(w.uid)
	if w.state == Queued {
		now := time.Now()
		switch {
		case now.Before(w.notBefore):
			p.queue.set(w.uid, w.notBefore)
		case p.mayStart(w, now):
			p.move(w, onStart)
		}
	}
	if w.state == Syncing {
		w.acting = w.pod
	}
	pod := w.acting
	if pod == nil || w.state == Queued {
		pod = w.pod
	}
	j := SyncJob{
		State: w.state, Run: w.number, Desired: w.desired, Restart: w.restart != nil,
		Pod: pod, Found: w.found, Kill: w.kill, NotBefore: w.notBefore, Paused: report, Notified: w.notified.C(),
	}
	if w.grace != nil {
		j.Grace = *w.grace
	} else {
		j.Grace = w.ownGrace()
	}
	jobCtx, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	return j, jobCtx, cancel, true
}

// complete applies the result of a job. It reports whether the worker is forgotten.
func (p *Workers) complete(w *worker, j SyncJob, result SyncResult) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.cancel = nil
	if j.Paused {
		return false
	}
	w.retrying, w.held = result.Err != nil, result.Held
	if j.Run != w.number || j.State != w.state {
		// Something was decided while the sync ran; the worker is dirty already.
		return false
	}
	switch {
	case result.Err != nil || j.State == Queued || j.State == Terminating && result.Parked:
	case result.Replace != nil:
		p.end(w, onRestart, *result.Replace)
		w.restart = &restartRequest{}
	case result.Ended:
		w.disrupted = result.Disrupted
		p.end(w, onEnded, KillOrder{})
	case j.State == Terminating:
		p.move(w, onStopped)
		p.markDirty(w)
	case j.State == Terminated:
		p.move(w, onCleaned)
		p.finish(w)
	case j.State == Finished && !j.Desired && !w.desired:
		p.forget(w)
		return true
	case j.State == Finished && result.Restart && w.desired:
		p.restart(w, "the disruption has passed", time.Time{})
	}
	p.schedule(w, result)
	return false
}

// schedule sets the time of the next sync, unless the worker is dirty already.
func (p *Workers) schedule(w *worker, result SyncResult) {
	if w.dirty {
		return
	}
	now := time.Now()
	if result.Err == nil {
		w.failures = 0
	} else {
		w.failures++
	}
	var at time.Time
	switch {
	case result.After > 0:
		at = now.Add(min(result.After, resyncPeriod))
	case result.Err != nil:
		at = now.Add(errorDelay(w.failures))
	case result.Parked && result.Due.IsZero():
		return
	case result.Parked:
		at = result.Due
	case w.state == Syncing:
		// Whole seconds let the resyncs of many pods share one timer. Truncate
		// would drop the monotonic reading, and a clock that is set back would
		// stop the resyncs for years.
		at = now.Add(Jitter(resyncPeriod))
		at = at.Add(-time.Duration(at.Nanosecond()))
	default:
		return
	}
	if w.state == Syncing && !result.Due.IsZero() && result.Due.Before(at) {
		at = result.Due
	}
	p.queue.set(w.uid, at)
}

// errorDelay returns when to try again after so many failures in a row: soon after
// the first, because most pass at once, and in the end at the kubelet's pace. The
// kubelet's flat 10 s would stretch a back-off in which a single sync failed.
func errorDelay(failures int) time.Duration {
	return Jitter(min(errorBackoffMin<<min(failures-1, 8), ErrorBackoff))
}
