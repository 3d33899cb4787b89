package probe

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// worker is one probe of one instance of a container.
type worker struct {
	container *probedContainer
	kind      Kind
	spec      *v1.Probe

	state state
	// lastResult is the last result, resultRun how often it came in a row.
	lastResult bool
	resultRun  int
	// onHold: the state is final for this instance.
	onHold bool
	// ended: the container or its pod no longer needs the probe.
	ended bool
	// cancel ends the probe in progress; nil if there is none.
	cancel context.CancelFunc

	// due is when it runs next, index its place in the queue, -1 if it is not
	// queued.
	due   time.Time
	index int
}

// newWorker creates a probe with its initial state, the kubelet's: not ready,
// alive, start unknown. A recorded state of the container takes precedence.
func newWorker(of *probedContainer, kind Kind, spec *v1.Probe, known *PreviousState) *worker {
	w := &worker{container: of, kind: kind, spec: spec, index: -1}
	switch kind {
	case Startup:
		if known != nil && known.Started {
			w.state, w.onHold = success, true
		}
	case Liveness:
		w.state = success
	case Readiness:
		w.state = failure
		if known != nil && known.Ready {
			w.state = success
		}
	}
	return w
}

// period and timeout are at least a second, which is the default of the latter;
// defaulting has set both.
func (w *worker) period() time.Duration  { return seconds(max(w.spec.PeriodSeconds, 1)) }
func (w *worker) timeout() time.Duration { return seconds(max(w.spec.TimeoutSeconds, 1)) }

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// idle reports whether there is nothing to run now: the state is final, or the
// container has not started according to its startup probe.
func (w *worker) idle() bool {
	start := w.container.workers[Startup]
	return w.onHold || w.ended || w.kind != Startup && start != nil && start.state != success
}

// scheduleFirst schedules the first probe. The kubelet's workers tick from before
// the container starts, so that their first probe comes up to a period after the
// initial delay; ours comes at its end.
func (p *Prober) scheduleFirst(w *worker, jitter time.Duration) {
	if w.idle() {
		return
	}
	now := time.Now()
	p.schedule(w, now.Add(max(w.initialDelay(now), jitter)))
}

// initialDelay returns what is left of it. A container with a start time in the
// future was started before the clock was set; it waits no longer than one that
// starts now.
func (w *worker) initialDelay(now time.Time) time.Duration {
	delay := seconds(w.spec.InitialDelaySeconds)
	return min(w.container.started.Add(delay).Sub(now), delay)
}

// record counts a result and reports whether it changed the state. As with the
// kubelet, only results in a row count, and a liveness failure as well as a
// decided start is final until there is a new instance.
func (w *worker) record(ok bool) bool {
	if ok != w.lastResult {
		w.lastResult, w.resultRun = ok, 0
	}
	w.resultRun++
	result, threshold := failure, w.spec.FailureThreshold
	if ok {
		result, threshold = success, w.spec.SuccessThreshold
	}
	if w.resultRun < int(threshold) {
		return false
	}
	w.onHold = w.kind == Startup || w.kind == Liveness && !ok
	changed := w.state != result
	w.state = result
	return changed
}

// finish processes the result of a probe; responded is false if it could not be
// run.
func (p *Prober) finish(w *worker, responded, ok bool, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.cancel()
	w.cancel = nil
	if w.ended {
		return
	}
	w.container.pod.count(w, responded, ok, took)
	if responded && w.record(ok) {
		p.notifyChanged(w.container.pod.pod.UID)
		if w.kind == Startup && ok {
			for _, other := range w.container.workers {
				if other != nil {
					p.scheduleFirst(other, 0)
				}
			}
		}
	}
	if w.idle() {
		return
	}
	// A probe that took longer than its period runs again at once.
	at := w.due.Add(w.period())
	if now := time.Now(); at.Before(now) {
		at = now
	}
	p.schedule(w, at)
}
