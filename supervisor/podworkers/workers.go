package podworkers

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/wakeup"
)

// Times of the work queue, as in the kubelet (syncFrequency and the worker's
// back-off).
const (
	resyncPeriod = time.Minute
	// ErrorBackoff is the longest wait after a failed sync.
	ErrorBackoff = 10 * time.Second
	// errorBackoffMin is the wait after a first failure.
	errorBackoffMin = time.Second
	jitterFactor    = 0.5
)

// Jitter stretches a duration by up to half, so that pods do not sync in step.
func Jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*jitterFactor*float64(d))
}

// Workers are the workers of all pods. Its methods never block on a sync and wait
// for nothing but its own lock.
type Workers struct {
	// newSync returns the sync function of a new worker, with a memory of its own.
	newSync func() func(context.Context, SyncJob) SyncResult
	queue   *workQueue
	spawn   func(w *worker)

	mu sync.Mutex
	// paused holds every sync back while the runtime is not healthy.
	paused bool
	byUID  map[types.UID]*worker
	// byName holds the workers of a full name in the order in which they came, so
	// that the first that waits is the next to start.
	byName map[string][]*worker
	// changed is notified when a worker has finished or is forgotten.
	changed wakeup.Signal
}

// New returns workers that sync pods with s. It starts nothing.
func New[M any](s Syncer[M]) *Workers {
	return &Workers{
		newSync: func() func(context.Context, SyncJob) SyncResult {
			memory := new(M)
			return func(ctx context.Context, job SyncJob) SyncResult { return s.Sync(ctx, job, memory) }
		},
		queue:   newWorkQueue(),
		byUID:   map[types.UID]*worker{},
		byName:  map[string][]*worker{},
		changed: wakeup.NewSignal(),
	}
}

// Start lets workers run until the context ends. It comes before the first update.
// The wait group is done when the goroutines of all workers have returned.
func (p *Workers) Start(ctx context.Context, wg *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spawn = func(w *worker) { wg.Go(func() { p.loop(ctx, w) }) }
}

// Changed receives after a worker has finished or was forgotten.
func (p *Workers) Changed() <-chan struct{} { return p.changed.C() }

// QueueChanged receives when NextDue has become earlier.
func (p *Workers) QueueChanged() <-chan struct{} { return p.queue.changed.C() }

// NextDue returns when the next sync of any pod is due, false if none is.
func (p *Workers) NextDue() (time.Time, bool) { return p.queue.earliest() }

// NotifyDue notifies the workers whose time has come.
func (p *Workers) NotifyDue(now time.Time) {
	for {
		uid, ok := p.queue.pop(now)
		if !ok {
			return
		}
		p.Notify(uid)
	}
}

// add makes the worker of a UID. mu is held, as by all unexported methods below.
func (p *Workers) add(uid types.UID, name string) *worker {
	w := &worker{uid: uid, notified: wakeup.NewSignal(), name: name}
	p.byUID[uid] = w
	p.byName[name] = append(p.byName[name], w)
	p.spawn(w)
	return w
}

// forget removes a worker; its goroutine returns.
func (p *Workers) forget(w *worker) {
	p.move(w, onForget)
	w.notifyEnded()
	p.queue.remove(w.uid)
	p.dequeueName(w)
	delete(p.byUID, w.uid)
	p.changed.Notify()
}

// move applies a trigger and reports whether the table has it for the state.
func (p *Workers) move(w *worker, t trigger) bool {
	row := next(w.state, t)
	if row == nil {
		return false
	}
	w.state = row.to
	if row.newRun {
		w.run = run{number: w.number + 1}
	}
	return true
}

// markDirty marks a worker dirty and notifies its goroutine.
func (p *Workers) markDirty(w *worker) {
	w.dirty = true
	w.notified.Notify()
}
