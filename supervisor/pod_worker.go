package supervisor

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/status"
)

// worker is all that is known of one UID: where its run stands and what it is
// asked to do. Its fields are guarded by podWorkers.mu; one goroutine acts on
// it, one script at a time.
type worker struct {
	uid types.UID
	// wake tells the goroutine that something is dirty.
	wake chan struct{}

	state state
	// run counts the runs of this UID, from 0.
	run int
	// name is the full name that this run waits for or holds.
	name string
	// wanted says that a source holds the pod; found is what an orphan was
	// found by.
	wanted bool
	found  *cri.Pod
	// pod is the newest revision, acting the one that the run was last synced
	// with. They differ while an old revision ends.
	pod, acting *v1.Pod
	// kill is the first decision that ended the run; grace is in seconds, nil
	// until there was a decision, and only shrinks.
	kill  *killOrder
	grace *int64
	// endedAt is when that was.
	endedAt time.Time
	// rerun is set while an ending run is to be followed by another.
	rerun     *rerunOrder
	notBefore time.Time

	// failures counts those in a row.
	failures int
	dirty    bool
	// held: the run waits for a pod that is not ours to wake it; retrying: its
	// last script failed; displaced: the node has ended it for its own sake.
	held, retrying, displaced bool
	// waiters are closed when the run has ended.
	waiters []chan struct{}
	// cancel ends the script in flight; nil if there is none.
	cancel context.CancelFunc
}

// killOrder is a decision to end a pod.
type killOrder struct {
	reason  killReason
	message string
	// grace in seconds; nil is the pod's own.
	grace *int64
	// displaced is set if the node ends it for its own sake.
	displaced *status.Disruption
}

// killReason is why a pod ends, for logs and the runtime's Killing event.
type killReason string

const (
	killRemoved   killReason = "Removed"
	killOrphan    killReason = "Orphaned"
	killRerun     killReason = "Rerun"
	killDeleted   killReason = "Deleted"
	killDisplaced killReason = "Displaced"
)

// rerunOrder asks for another run.
type rerunOrder struct {
	reason    string
	notBefore time.Time
}

// holdsName reports whether the run has started and not yet finished: until
// then no other pod of its full name may start.
func (w *worker) holdsName() bool {
	return w.state == stateSyncing || w.state == stateTerminating || w.state == stateTerminated
}

// ownGrace is the grace period, in seconds, that the run itself asks for.
func (w *worker) ownGrace() int64 {
	pod := w.acting
	if pod == nil {
		pod = w.pod
	}
	if pod == nil {
		return foundGrace(w.found)
	}
	if pod.DeletionGracePeriodSeconds != nil {
		return *pod.DeletionGracePeriodSeconds
	}
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return v1.DefaultTerminationGracePeriodSeconds
}

// foundGrace is the longest grace period written on a pod's containers. The
// kubelet gives such orphans one second; a database deserves what its manifest
// promised it.
func foundGrace(found *cri.Pod) int64 {
	grace := int64(-1)
	if found != nil {
		for i := range found.Containers {
			if g := found.Containers[i].TerminationGracePeriod; g != nil {
				grace = max(grace, *g)
			}
		}
	}
	if grace < 0 {
		return v1.DefaultTerminationGracePeriodSeconds
	}
	return grace
}

// job is one script to run, with a copy of what it needs.
type syncJob struct {
	state  state
	run    int
	wanted bool
	rerun  bool
	pod    *v1.Pod
	found  *cri.Pod
	kill   *killOrder
	grace  int64
	// notBefore is that of a queued run.
	notBefore time.Time
	// woken wakes when the worker became dirty withStatusRefresh. A script that lasts
	// may listen; it runs again afterwards all the same.
	woken <-chan struct{}
}

// outcome is what a script found out.
type syncResult struct {
	err error
	// told: an event tells of the error.
	eventSent bool
	// ended: the restartPolicy has ended the pod, or before this daemon the
	// node did: displaced.
	ended, disrupted bool
	// again: a displaced pod may run again.
	restart bool
	// replace is set if what runs is a revision that cannot become the wanted
	// one in place.
	replace *killOrder
	// held: another client's pod must end first, or the node refuses the pod.
	held bool
	// parked: it is woken when there is room for it, and not looked at before.
	parked bool
	// after is the time to the next look, 0 for the usual one; it comes at due
	// at the latest, unless that is zero.
	after time.Duration
	due   time.Time
}

// scripts runs the transaction script that belongs to a job's state.
type syncer interface {
	sync(ctx context.Context, j syncJob, r *runState) syncResult
}

// loop is the goroutine of a worker. It returns when the pod is forgotten or
// the daemon stops.
func (p *podWorkers) loop(ctx context.Context, w *worker) {
	r := &runState{number: -1}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for {
			j, jobCtx, cancel, ok := p.take(ctx, w)
			if !ok {
				break
			}
			out := p.syncer.sync(jobCtx, j, r)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if p.complete(w, j, out) {
				return
			}
		}
	}
}

// take starts the next job of a worker, if it has one.
func (p *podWorkers) take(ctx context.Context, w *worker) (syncJob, context.Context, context.CancelFunc, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.dirty || p.paused || ctx.Err() != nil {
		return syncJob{}, nil, nil, false
	}
	w.dirty = false
	p.queue.drop(w.uid)
	if w.state == stateQueued {
		now := time.Now()
		switch {
		case now.Before(w.notBefore):
			p.queue.set(w.uid, w.notBefore)
		case p.free(w, now):
			p.move(w, onStart)
		}
	}
	if w.state == stateSyncing {
		w.acting = w.pod
	}
	pod := w.acting
	if pod == nil || w.state == stateQueued {
		pod = w.pod
	}
	j := syncJob{
		state: w.state, run: w.run, wanted: w.wanted, rerun: w.rerun != nil,
		pod: pod, found: w.found, kill: w.kill, notBefore: w.notBefore, woken: w.wake,
	}
	if w.grace != nil {
		j.grace = *w.grace
	} else {
		j.grace = w.ownGrace()
	}
	jobCtx, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	return j, jobCtx, cancel, true
}

// complete moves a worker on after a job. It reports whether the worker is
// forgotten.
func (p *podWorkers) complete(w *worker, j syncJob, out syncResult) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.cancel = nil
	w.retrying, w.held = out.err != nil, out.held
	if j.run != w.run || j.state != w.state {
		// Something was decided while the script ran; it is dirty already.
		return false
	}
	switch {
	case out.err != nil || j.state == stateQueued:
	case out.replace != nil:
		p.end(w, onRerun, *out.replace)
		w.rerun = &rerunOrder{reason: out.replace.message}
	case out.ended:
		w.displaced = out.disrupted
		p.end(w, onEnded, killOrder{})
	case j.state == stateTerminating:
		p.move(w, onStopped)
		p.touch(w)
	case j.state == stateTerminated:
		p.move(w, onCleaned)
		p.finished(w)
	case j.state == stateFinished && !j.wanted && !w.wanted:
		p.forget(w)
		return true
	case j.state == stateFinished && out.restart && w.wanted:
		p.again(w, "what ended it has passed", time.Time{})
	}
	p.schedule(w, out)
	return false
}

// schedule sets the time of the next look, unless there is work already.
func (p *podWorkers) schedule(w *worker, out syncResult) {
	if w.dirty {
		return
	}
	now := time.Now()
	if out.err == nil {
		w.failures = 0
	} else {
		w.failures++
	}
	var at time.Time
	switch {
	case out.after > 0:
		at = now.Add(min(out.after, resyncPeriod))
	case out.err != nil:
		at = now.Add(errorDelay(w.failures))
	case out.parked && out.due.IsZero():
		return
	case out.parked:
		at = out.due
	case w.state == stateSyncing:
		// Whole seconds let the resyncs of many pods share one wake-up. Truncate
		// would drop the monotonic reading, and a clock that is set back would
		// stop the resyncs for years.
		at = now.Add(jitter(resyncPeriod))
		at = at.Add(-time.Duration(at.Nanosecond()))
	default:
		return
	}
	if w.state == stateSyncing && !out.due.IsZero() && out.due.Before(at) {
		at = out.due
	}
	p.queue.set(w.uid, at)
}

// errorDelay is when to try again after so many failures in a row: soon after
// the first, since most pass at once, in the end at the kubelet's pace. Its
// flat 10 s would stretch a back-off in which a single look failed.
func errorDelay(failures int) time.Duration {
	return jitter(min(errorBackoffMin<<min(failures-1, 8), errorBackoff))
}
