package probe

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Buckets are the upper bounds of what probes took, in seconds: those that the
// kubelet counts in.
var Buckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Count is how often a container was probedContainer, and what came of it.
type Count struct {
	UID                       types.UID
	Namespace, Pod, Container string
	Kind                      Kind
	// Succeeded and Failed were answered, Unknown could not be asked.
	Succeeded, Failed, Unknown uint64
	// Took is how long all took together, Within how many took no longer than
	// the bucket of the same place.
	Took   time.Duration
	Within [11]uint64
}

type countKey struct {
	container string
	kind      Kind
}

// count notes what came of a probe. The prober's lock is held.
func (pod *podProbes) count(w *worker, answered, ok bool, took time.Duration) {
	key := countKey{w.container.spec.Name, w.kind}
	c := pod.counts[key]
	if c == nil {
		if pod.counts == nil {
			pod.counts = map[countKey]*Count{}
		}
		c = &Count{
			UID: pod.pod.UID, Namespace: pod.pod.Namespace, Pod: pod.pod.Name, Container: w.container.spec.Name, Kind: w.kind,
		}
		pod.counts[key] = c
	}
	switch {
	case !answered:
		c.Unknown++
		return
	case ok:
		c.Succeeded++
	default:
		c.Failed++
	}
	c.Took += took
	for i, bound := range Buckets {
		if took.Seconds() <= bound {
			c.Within[i]++
		}
	}
}

// Counts are those of all pods that are probedContainer, sorted. One of a pod that is
// gone is gone.
func (p *Prober) Counts() []Count {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Count
	for _, pod := range p.pods {
		for _, c := range pod.counts {
			all = append(all, *c)
		}
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}
