package probe

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Buckets are the upper bounds of the durations of probes, in seconds, the
// kubelet's.
var Buckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Count is how often a container was probed, by result.
type Count struct {
	UID                       types.UID
	Namespace, Pod, Container string
	Kind                      Kind
	// Succeeded and Failed have a result; Unknown could not be run.
	Succeeded, Failed, Unknown uint64
	// Took is the total duration. Within counts the probes that took no longer
	// than the bucket with the same index.
	Took   time.Duration
	Within [11]uint64
}

type countKey struct {
	container string
	kind      Kind
}

// count counts a result. The prober's lock is held.
func (pod *podProbes) count(w *worker, responded, ok bool, took time.Duration) {
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
	case !responded:
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

// Counts returns those of all pods that are probed, sorted. Removed pods are not
// included.
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
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.UID, b.UID),
			cmp.Compare(a.Container, b.Container), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}
