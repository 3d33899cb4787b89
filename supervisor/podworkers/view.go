package podworkers

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// State returns the state of a pod's run, None if it has no worker.
func (p *Workers) State(uid types.UID) State {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.byUID[uid]; ok {
		return w.state
	}
	return None
}

// Desired reports whether a source wants the pod, if only as last known.
func (p *Workers) Desired(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	return ok && w.desired
}

// RunEnded reports whether a pod's run has ended, and whether another follows. A
// pod that waits for its first run may have containers of an earlier daemon, which
// go on: its run has not ended.
func (p *Workers) RunEnded(uid types.UID) (ended, restarts bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	switch {
	case ok && w.state == Finished:
		return true, false
	case ok && w.state == Queued && w.number > 0:
		return true, true
	}
	return false, false
}

// View is one pod as users see it.
type View struct {
	Pod     *v1.Pod
	Desired bool
	// Since is when it was decided that the pod ends, Grace how many seconds that
	// may take.
	Since time.Time
	Grace int64
}

// Views returns all pods that are desired or still ending.
func (p *Workers) Views() []View {
	p.mu.Lock()
	defer p.mu.Unlock()
	views := make([]View, 0, len(p.byUID))
	for _, w := range p.byUID {
		v := w.view()
		// Of a pod whose directories alone were found there is nothing to show. A pod
		// whose removal fails is shown with the reason.
		if v.Desired || (w.holdsName() || w.retrying) && v.Pod.Name != "" {
			views = append(views, v)
		}
	}
	return views
}

// Terminating returns the pods that are terminating and of which something may still
// run.
func (p *Workers) Terminating() []View {
	p.mu.Lock()
	defer p.mu.Unlock()
	var views []View
	for _, w := range p.byUID {
		if w.state == Terminating {
			views = append(views, w.view())
		}
	}
	return views
}

// view returns the pod of a worker as users see it; of an orphan, what is known of it.
func (w *worker) view() View {
	v := View{Pod: w.acting, Desired: w.desired, Since: w.endedAt, Grace: w.ownGrace()}
	if v.Pod == nil || w.desired {
		v.Pod = w.pod
	}
	if v.Pod == nil {
		v.Pod = w.found
	}
	if w.grace != nil {
		v.Grace = *w.grace
	}
	return v
}

// Live returns the pods whose runs have started and not ended.
func (p *Workers) Live() (pods []*v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.byUID {
		if !w.holdsName() {
			continue
		}
		pod := w.acting
		if pod == nil {
			pod = w.pod
		}
		if pod == nil {
			pod = w.found
		}
		pods = append(pods, pod)
	}
	return pods
}

// Counts are the numbers of workers by kind, in the kubelet's words: config is
// desired for a desired pod, orphan for one that no source wants any more, and
// runtime_only for one that only the runtime knows; lifecycle is sync, terminating
// or terminated. A worker that waits for its name counts as sync.
type Counts map[Kind]int

// Kind is what a worker is for and what it does.
type Kind struct {
	Config, Lifecycle string
	// Static is "true" for a static pod, "unknown" for a pod that only the
	// runtime knows, and empty for an API pod.
	Static string
}

// Count counts the workers.
func (p *Workers) Count() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := Counts{}
	for _, w := range p.byUID {
		kind := Kind{Config: "desired", Lifecycle: "sync"}
		switch {
		case w.pod == nil:
			kind.Config, kind.Static = "runtime_only", "unknown"
		case !w.desired:
			kind.Config = "orphan"
		}
		if w.pod != nil && podinfo.PolicyOf(w.pod).Static {
			kind.Static = "true"
		}
		switch w.state {
		case Terminating:
			kind.Lifecycle = "terminating"
		case Terminated, Finished:
			kind.Lifecycle = "terminated"
		}
		all[kind]++
	}
	return all
}
