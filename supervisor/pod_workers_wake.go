package supervisor

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/gc"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// pause holds scripts back, or lets them go again and wakes whoever has one
// due or failed while the runtime was away.
func (p *podWorkers) pause(paused bool) {
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
			p.touch(w)
		}
	}
}

// wake makes a pod's worker look again, whatever its state.
func (p *podWorkers) wake(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.byUID[uid]; ok {
		p.touch(w)
	}
}

// wakeAll makes every worker look again.
func (p *podWorkers) wakeAll() {
	p.wakeIf(func(*worker) bool { return true })
}

// wakeHeld wakes those who wait for another client's pod to end.
func (p *podWorkers) wakeHeld() {
	p.wakeIf(func(w *worker) bool { return w.held })
}

// wakeRetrying wakes those whose last script failed.
func (p *podWorkers) wakeRetrying() {
	p.wakeIf(func(w *worker) bool { return w.retrying })
}

// wakeSharers wakes the pods that mount a claim which this one had: it may have
// been for one pod at a time. mu is held.
func (p *podWorkers) wakeSharers(w *worker) {
	if w.acting == nil {
		return
	}
	for i := range w.acting.Spec.Volumes {
		claim := w.acting.Spec.Volumes[i].PersistentVolumeClaim
		if claim == nil {
			continue
		}
		for _, other := range p.byUID {
			if other != w && other.state == stateSyncing && other.pod.Namespace == w.acting.Namespace && mountsClaim(other.pod, claim.ClaimName) {
				p.touch(other)
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

func (p *podWorkers) wakeIf(cond func(*worker) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.byUID {
		if cond(w) {
			p.touch(w)
		}
	}
}

// state is where a pod's run stands, stateNone if there is no worker.
func (p *podWorkers) state(uid types.UID) state {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.byUID[uid]; ok {
		return w.state
	}
	return stateNone
}

// wanted reports whether a source wants the pod, if only as last known.
func (p *podWorkers) wanted(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	return ok && w.wanted
}

// ending is whether a pod's run has ended. One that waits to run for the first
// time may have containers from before the daemon started, and goes on.
func (p *podWorkers) ending(uid types.UID) gc.Ending {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	switch {
	case ok && w.state == stateFinished:
		return gc.EndedForGood
	case ok && w.state == stateQueued && w.run > 0:
		return gc.EndedToRunAgain
	}
	return gc.NotEnded
}

// view is one pod as people see it.
type podView struct {
	pod    *v1.Pod
	wanted bool
	// since is when it was decided that it ends, grace how long it may take.
	since time.Time
	grace int64
}

// views are all pods that are wanted or still ending.
func (p *podWorkers) podViews() []podView {
	p.mu.Lock()
	defer p.mu.Unlock()
	views := make([]podView, 0, len(p.byUID))
	for _, w := range p.byUID {
		v := podView{pod: w.acting, wanted: w.wanted, since: w.endedAt, grace: w.ownGrace()}
		if v.pod == nil || w.wanted {
			v.pod = w.pod
		}
		if v.pod == nil {
			v.pod = podFrom(w.found)
		}
		if w.grace != nil {
			v.grace = *w.grace
		}
		// Of a pod whose folders alone were found there is nothing to show.
		if v.wanted || w.holdsName() && v.pod.Name != "" {
			views = append(views, v)
		}
	}
	return views
}

// Workers are how many workers there are, by what they are for and what they do,
// in the kubelet's words: of a pod that is desired, of an orphan, which no source
// wants any more, or of a pod that the runtime alone knows; and sync, terminating
// or terminated. One that waits for its name syncs as far as that is told.
type Workers map[WorkerKind]int

// WorkerKind is what a worker is for and what it does.
type WorkerKind struct {
	Config, Lifecycle string
	// Static is "true" of a pod that no API server gave, "unknown" of one that the
	// runtime alone knows, and else empty.
	Static string
}

// Workers are counted without a look at anything else.
func (s *Supervisor) Workers() Workers {
	p := s.workers
	p.mu.Lock()
	defer p.mu.Unlock()
	all := Workers{}
	for _, w := range p.byUID {
		kind := WorkerKind{"desired", "sync", ""}
		switch {
		case w.pod == nil:
			kind.Config, kind.Static = "runtime_only", "unknown"
		case !w.wanted:
			kind.Config = "orphan"
		}
		if w.pod != nil && !podinfo.IsAPI(w.pod) {
			kind.Static = "true"
		}
		switch w.state {
		case stateTerminating:
			kind.Lifecycle = "terminating"
		case stateTerminated, stateFinished:
			kind.Lifecycle = "terminated"
		}
		all[kind]++
	}
	return all
}
