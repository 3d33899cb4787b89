package podstart

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// Duration is how long a pod took to start, from its acceptance until all its containers
// were started, with the known parts of it in the order in which they began.
type Duration struct {
	Took  time.Duration
	Steps []cri.Step
}

// Durations keeps how long pods took to start, in memory only: a pod that an earlier daemon
// started has none. The zero value is empty.
type Durations struct {
	mu    sync.Mutex
	byUID map[types.UID]*duration
}

// duration is a Duration. done: the pod has started.
type duration struct {
	Duration
	done bool
}

// Begin forgets what is known of the pod: it starts for the first time, or again.
func (d *Durations) Begin(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byUID == nil {
		d.byUID = map[types.UID]*duration{}
	}
	d.byUID[uid] = &duration{}
}

// Add adds a step to the start of a pod, unless the start has ended.
func (d *Durations) Add(uid types.UID, step string, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.byUID[uid]
	if s == nil || s.done {
		return
	}
	if i := slices.IndexFunc(s.Steps, func(known cri.Step) bool { return known.Name == step }); i >= 0 {
		s.Steps[i].Took += took
		return
	}
	s.Steps = append(s.Steps, cri.Step{Name: step, Took: took})
}

// End ends the start of a pod.
func (d *Durations) End(uid types.UID, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.byUID[uid]; s != nil && !s.done {
		s.Took, s.done = took, true
	}
}

// Forget forgets a pod.
func (d *Durations) Forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byUID, uid)
}

// Get returns how long a pod took to start. ok is false while it starts, and if the daemon
// did not start it.
func (d *Durations) Get(uid types.UID) (took Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.byUID[uid]
	if s == nil || !s.done {
		return Duration{}, false
	}
	return s.Duration, true
}
