package podworkers

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pause holds all syncs back, or lets them go on and notifies the workers that
// became dirty or failed meanwhile.
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

// notifySharers notifies the pods that mount a claim which this pod had: a claim
// may be for one pod at a time. mu is held.
func (p *Workers) notifySharers(w *worker) {
	if w.acting == nil {
		return
	}
	for i := range w.acting.Spec.Volumes {
		claim := w.acting.Spec.Volumes[i].PersistentVolumeClaim
		if claim == nil {
			continue
		}
		for _, other := range p.byUID {
			if other != w && other.state == Syncing && other.pod.Namespace == w.acting.Namespace && mountsClaim(other.pod, claim.ClaimName) {
				p.markDirty(other)
			}
		}
	}
}

// mountsClaim reports whether a pod has a volume that is the claim.
func mountsClaim(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name
	})
}
