package podworkers

import (
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Pause holds all syncs back, or lets them go on and notifies the workers that
// became dirty or failed meanwhile. What terminates may report that its end waits.
func (p *Workers) Pause(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused == paused {
		return
	}
	p.paused = paused
	if paused {
		return
	}
	for _, w := range p.byUID {
		w.pauseReported = false
		if w.dirty || w.retrying {
			p.markDirty(w)
		}
	}
}

// Notify makes a pod's worker sync again, whatever its state.
func (p *Workers) Notify(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.byUID[uid]; ok {
		p.markDirty(w)
	}
}

// NotifyAll makes every worker sync again.
func (p *Workers) NotifyAll() {
	p.notifyIf(func(*worker) bool { return true })
}

// RetryHeld makes the workers sync again that wait for something outside of this
// daemon.
func (p *Workers) RetryHeld() {
	p.notifyIf(func(w *worker) bool { return w.held })
}

// RetryFailed makes the workers sync again whose last sync failed.
func (p *Workers) RetryFailed() {
	p.notifyIf(func(w *worker) bool { return w.retrying })
}

// RetryDisrupted makes the workers sync again whose pods the node has ended.
func (p *Workers) RetryDisrupted() {
	p.notifyIf(func(w *worker) bool { return w.disrupted && w.state == Finished })
}

func (p *Workers) notifyIf(cond func(*worker) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.byUID {
		if cond(w) {
			p.markDirty(w)
		}
	}
}

// notifySharers notifies the running pods that mount a claim which this pod had: the
// claim may be for one pod at a time. mu is held.
func (p *Workers) notifySharers(w *worker) {
	if w.acting == nil {
		return
	}
	for _, other := range p.byUID {
		if other != w && other.state == Syncing && podinfo.ShareClaim(w.acting, other.pod) {
			p.markDirty(other)
		}
	}
}
