package podworkers

import (
	"fmt"
	"time"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// ReasonNameTaken is the reason of a pod whose full name another pod holds that
// this daemon does not end for it.
const ReasonNameTaken = "NameTaken"

// mayStart reports whether a queued worker may start now: no pod of its full name
// has started and not finished, and none waits before it.
func (p *Workers) mayStart(w *worker, now time.Time) bool {
	before := true
	for _, other := range p.byName[w.name] {
		switch {
		case other == w:
			before = false
		case other.holdsName():
			return false
		case before && other.state == Queued && other.desired && !now.Before(other.notBefore):
			return false
		}
	}
	return true
}

// enqueueForName puts a worker at the end of the queue for a name.
func (p *Workers) enqueueForName(w *worker, name string) {
	p.dequeueName(w)
	w.name = name
	p.byName[name] = append(p.byName[name], w)
}

func (p *Workers) dequeueName(w *worker) {
	queue := p.byName[w.name]
	for i, other := range queue {
		if other == w {
			queue = append(queue[:i:i], queue[i+1:]...)
			break
		}
	}
	if len(queue) == 0 {
		delete(p.byName, w.name)
	} else {
		p.byName[w.name] = queue
	}
}

// clearName ends a pod that yields its name if a pod of another source has the same
// full name: two pods of one name could share a data directory, and what a node runs
// by itself comes first.
func (p *Workers) clearName(w *worker) {
	for _, other := range p.byName[w.name] {
		if other == w || !other.desired || !w.desired || podinfo.SourceOf(w.pod) == podinfo.SourceOf(other.pod) {
			continue
		}
		yielding := w
		if !podinfo.PolicyOf(w.pod).YieldsName {
			yielding = other
		}
		if !podinfo.PolicyOf(yielding.pod).YieldsName || yielding.kill != nil || yielding.state == Finished {
			continue
		}
		p.disrupt(yielding, status.Disruption{Reason: ReasonNameTaken, Message: fmt.Sprintf(
			"a manifest of node %s has a pod of this name; rename one of the two", yielding.pod.Spec.NodeName)}, nil)
	}
}
