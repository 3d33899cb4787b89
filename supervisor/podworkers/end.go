package podworkers

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// Errors of Restart and Disrupt.
var (
	ErrUnknownPod  = errors.New("no such pod")
	ErrUnwantedPod = errors.New("no source holds its manifest")
	ErrAPIPod      = errors.New("it belongs to the API server, which creates a new pod instead")
	ErrNotRunning  = errors.New("it is not running")
	ErrEnding      = errors.New("it is already terminating")
)

// Restart ends the run of a pod, if it has not ended yet, and starts another not
// before the given time; zero is at once.
func (p *Workers) Restart(uid types.UID, reason string, notBefore time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	switch {
	case !ok:
		return fmt.Errorf("cannot restart pod %s: %w", uid, ErrUnknownPod)
	case !w.desired:
		return fmt.Errorf("cannot restart pod %s: %w", w.name, ErrUnwantedPod)
	case !podinfo.PolicyOf(w.pod).Restarts:
		return fmt.Errorf("cannot restart pod %s: %w", w.name, ErrAPIPod)
	}
	p.restart(w, reason, notBefore)
	p.markDirty(w)
	return nil
}

// Disrupt ends a pod that runs for the node's own sake, within grace seconds or the
// pod's own grace period if that is nil. It is an error for a pod that does not run.
func (p *Workers) Disrupt(uid types.UID, d status.Disruption, grace *int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	switch {
	case !ok:
		return fmt.Errorf("cannot terminate pod %s: %w", uid, ErrUnknownPod)
	case w.state == Queued, w.state == Finished:
		return fmt.Errorf("cannot terminate pod %s: %w", w.name, ErrNotRunning)
	case w.state != Syncing:
		return fmt.Errorf("cannot terminate pod %s: %w", w.name, ErrEnding)
	}
	p.disrupt(w, d, grace)
	return nil
}

// DisruptWithin ends a pod for the node's own sake within its own grace period or
// the given seconds, whichever is less. One that is ending already is not given
// more. A pod that does not run is left alone.
func (p *Workers) DisruptWithin(uid types.UID, d status.Disruption, seconds int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	if !ok || !w.holdsName() {
		return
	}
	grace := min(w.ownGrace(), seconds)
	p.disrupt(w, d, &grace)
}

func (p *Workers) disrupt(w *worker, d status.Disruption, grace *int64) {
	if d.At.IsZero() {
		d.At = time.Now()
	}
	p.end(w, onKill, KillOrder{Reason: KillDisrupted, Message: d.Message, Grace: grace, Disruption: &d})
}

// Ended returns a channel that is closed when the present run of a pod has ended,
// at once if it does not run.
func (p *Workers) Ended(uid types.UID) <-chan struct{} {
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

// restart requests another run after this one, and ends this one for the given reason
// if it has not ended. A run that waits to start needs no other.
func (p *Workers) restart(w *worker, reason string, notBefore time.Time) {
	switch w.state {
	case Queued:
		w.notBefore = notBefore
		return
	case Syncing:
		p.end(w, onRestart, KillOrder{Reason: KillRestart, Message: reason})
	}
	w.restart = &restartRequest{notBefore: notBefore}
	if w.state == Finished {
		p.startNextRun(w)
	}
}

// end applies a decision that ends a run, or shortens the grace period of one that is
// ending. The first decision stays.
func (p *Workers) end(w *worker, t trigger, order KillOrder) {
	was := w.state
	if !p.move(w, t) {
		return
	}
	if w.kill == nil && order.Reason != "" {
		w.kill, w.disrupted = &order, order.Disruption != nil
	}
	grace := w.ownGrace()
	if order.Grace != nil {
		grace = *order.Grace
	}
	shortened := w.grace == nil || grace < *w.grace
	if shortened {
		grace = max(grace, 1)
		w.grace = &grace
	}
	if was != w.state {
		w.endedAt = time.Now()
	}
	switch {
	case was != w.state, shortened && w.state == Terminating:
		if w.cancel != nil {
			w.cancel()
		}
		p.markDirty(w)
	case w.state == Finished:
		p.markDirty(w)
	}
}

// finish frees the name and what else the pod had for itself alone, and notifies
// the workers that wait for it. Nothing polls.
func (p *Workers) finish(w *worker) {
	p.notifySharers(w)
	w.notifyEnded()
	for _, other := range p.byName[w.name] {
		if other.state == Queued || other.held {
			p.markDirty(other)
		}
	}
	if w.restart != nil {
		p.startNextRun(w)
	} else {
		p.markDirty(w)
	}
	p.changed.Notify()
}

// startNextRun begins the next run of a finished worker.
func (p *Workers) startNextRun(w *worker) {
	request := w.restart
	if !p.move(w, onRestart) {
		return
	}
	w.notBefore = request.notBefore
	if w.cancel != nil {
		w.cancel()
	}
	p.enqueueForName(w, podinfo.FullName(w.pod))
	p.markDirty(w)
}
