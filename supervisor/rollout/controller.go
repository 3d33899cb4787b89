package rollout

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

// PodConfig merges the sources. Implemented by manifest.PodConfig.
type PodConfig interface {
	// Updates delivers the changes in order. The channel is never closed.
	Updates() <-chan manifest.PodUpdate
	// Sources returns all sources that are going to deliver.
	Sources() []manifest.Source
	// FaultFor returns the fault of a newer revision of the pod, empty if none.
	FaultFor(uid types.UID) string
	// WasRead reports whether the manifest in effect of the pod was read in this run of
	// the daemon, and is not that of the checkpoint alone.
	WasRead(uid types.UID) bool
	// Subscribe returns a channel that receives after faults changed or a source was
	// read, until the function is called.
	Subscribe() (<-chan struct{}, func())
}

// Node prepares revisions. Implemented by supervisor.Supervisor.
type Node interface {
	// Prepare provides what the pod needs to start when the pod that it replaces
	// has ended: it pulls images, and judges what the pod refers to and its admission. It
	// returns nil, or why the pod could not start, and when to try again: zero is with a
	// back-off, Notified not before RetryPreparations. A cause without a message passes
	// soon, and is not reported. waiting is called with the cause
	// when it has to wait.
	Prepare(ctx context.Context, pod, replaced *v1.Pod, waiting func(status.Cause)) (*status.Cause, time.Duration)
	// Recheck judges again what Prepare has judged but for the images, without waiting.
	Recheck(pod, replaced *v1.Pod) (*status.Cause, time.Duration)
	// ForgetPrepared drops what Prepare has noted about the pod, such as the back-offs of
	// pulls that failed.
	ForgetPrepared(uid types.UID)
	// ShuttingDown reports whether the host shuts down; no revision comes into effect
	// then.
	ShuttingDown() bool
	// RuntimeAway reports whether the container runtime is not healthy, so that no pod can
	// become Ready. Reconsider follows each change.
	RuntimeAway() bool
}

// Recorder records events. Implemented by event.Recorder.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Options configures a Controller.
type Options struct {
	Pods PodConfig
	// Dir is where the rollouts are stored; empty stores nothing.
	Dir string
	// Disk is where they are stored.
	Disk statefile.Disk
	// RollbackAfter is for pods without the annotation; 0 is no rollback.
	RollbackAfter time.Duration
	// Started reports whether a pod with this UID was started here and is not forgotten;
	// nil knows nothing.
	Started func(types.UID) bool
	// Events may be nil.
	Events Recorder
	// LastEvent returns the message of the newest event of a pod with the reason, empty if there
	// is none; may be nil.
	LastEvent func(uid types.UID, reason string) string
	// Ended is called when a revision that replaced another one is in effect for good, or
	// was rolled back, with ResultCompleted or ResultRolledBack; may be nil.
	Ended func(result string)
	// Mark is wallclock.Now; nil knows nothing.
	Mark func() (wallclock.Mark, bool)
	Log  *slog.Logger
}

// The results of rollouts.
const (
	ResultCompleted  = "completed"
	ResultRolledBack = "rolled_back"
)

// Controller decides which revision of each static pod is in effect. It is the
// PodConfig of the supervisor.
type Controller struct {
	opts  Options
	log   *slog.Logger
	store *store
	// updates are what the supervisor reads.
	updates chan manifest.PodUpdate
	// results are ended preparations; requests are calls of the loop, whose owners wait.
	results  chan result
	requests chan func()
	// observed: a status matters; retries: preparations are to be tried again.
	observed, retries wakeup.Signal
	// stopped is closed when Run has ended.
	stopped chan struct{}

	// loop is what Run alone uses.
	loop loop

	mu sync.Mutex
	// byName are the rollouts by the full name of the pod, byUID those of the revisions
	// that the supervisor has.
	byName map[string]*podRollout
	byUID  map[types.UID]*podRollout
	// moving are pods of an earlier daemon that their sources no longer declare, and until
	// when another source may declare them.
	moving      map[types.UID]time.Time
	subscribers wakeup.Broadcast
}

// loop is the state of Run.
type loop struct {
	ctx   context.Context
	node  Node
	wg    *sync.WaitGroup
	queue []manifest.PodUpdate
	// delivered are the sources that have delivered a set of their own.
	delivered map[manifest.Source]bool
	// stored are the rollouts of an earlier daemon whose pods are not delivered yet.
	stored map[string]*storedRollout
	// unprepared are the rollouts whose preparation starts when the supervisor has taken
	// the queue: the candidate may need pods that it adds.
	unprepared []*podRollout
	// prepared are the rollouts whose candidates come into effect in turn. It may have some
	// whose candidate was superseded, and some twice.
	prepared []*podRollout
	// dirty are the names whose files are to be written at flushAt.
	dirty   map[string]bool
	flushAt time.Time
}

// flushDelay collects what is stored about new pods into one round of writes.
const flushDelay = time.Second

// New returns a Controller. It starts nothing and touches nothing.
func New(opts Options) *Controller {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Events == nil {
		opts.Events = noEvents{}
	}
	if opts.Mark == nil {
		opts.Mark = func() (wallclock.Mark, bool) { return wallclock.Mark{}, false }
	}
	return &Controller{
		opts: opts, log: opts.Log,
		store:   newStore(opts.Dir, opts.Disk, opts.Log),
		updates: make(chan manifest.PodUpdate), results: make(chan result), requests: make(chan func()),
		observed: wakeup.NewSignal(), retries: wakeup.NewSignal(), stopped: make(chan struct{}),
		loop:   loop{delivered: map[manifest.Source]bool{}, dirty: map[string]bool{}},
		byName: map[string]*podRollout{},
		byUID:  map[types.UID]*podRollout{},
		moving: map[types.UID]time.Time{},
	}
}

// noEvents discards events.
type noEvents struct{}

func (noEvents) Event(*v1.Pod, string, string, string) {}

// Run decides and passes the updates on, in order, until ctx ends. It is called once.
func (c *Controller) Run(ctx context.Context, node Node) error {
	defer close(c.stopped)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.loop.ctx, c.loop.node, c.loop.wg = ctx, node, &wg
	c.loop.stored = c.store.load()
	faults, unsubscribe := c.opts.Pods.Subscribe()
	defer unsubscribe()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var out chan<- manifest.PodUpdate
		var head manifest.PodUpdate
		if len(c.loop.queue) == 0 {
			c.switchPrepared()
		}
		if len(c.loop.queue) > 0 {
			out, head = c.updates, c.loop.queue[0]
		} else {
			c.loop.queue = nil
			c.startPreparations()
		}
		c.arm(timer)
		select {
		case <-ctx.Done():
			c.flush()
			return nil
		case out <- head:
			c.loop.queue = c.loop.queue[1:]
		case u := <-c.opts.Pods.Updates():
			c.handleUpdate(u)
		case <-faults:
			c.releaseConfirmed()
			c.subscribers.Notify()
		case r := <-c.results:
			c.handleResult(r)
		case do := <-c.requests:
			do()
		case <-c.observed.C():
			c.evaluate()
		case <-c.retries.C():
			c.retryAll()
		case <-timer.C:
			c.handleDue(time.Now())
		}
	}
}

// enqueue queues an update for the supervisor.
func (c *Controller) enqueue(u manifest.PodUpdate) { c.loop.queue = append(c.loop.queue, u) }

// arm sets the timer for what is due first, or stops it.
func (c *Controller) arm(timer *time.Timer) {
	first := c.loop.flushAt
	for _, s := range c.loop.stored {
		if !s.until.IsZero() && (first.IsZero() || s.until.Before(first)) {
			first = s.until
		}
	}
	for _, r := range c.byName {
		if at := c.dueAt(r); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		timer.Stop()
	} else {
		timer.Reset(max(0, time.Until(first)))
	}
}

// handleDue does what is due.
func (c *Controller) handleDue(now time.Time) {
	if at := c.loop.flushAt; !at.IsZero() && !at.After(now) {
		c.flush()
	}
	c.expireMoves(now)
	c.retryDue(now)
	c.evaluate()
}

// errStopped is returned to requests after the end of Run.
var errStopped = errors.New("the daemon is stopping")

// call runs a function in the loop and returns its error.
func (c *Controller) call(do func() error) error {
	done := make(chan error, 1)
	select {
	case c.requests <- func() { done <- do() }:
		return <-done
	case <-c.stopped:
		return errStopped
	}
}

// Updates returns the changes in the order in which they come into effect. The
// channel is unbuffered and never closed.
func (c *Controller) Updates() <-chan manifest.PodUpdate { return c.updates }

// Sources returns the registered sources.
func (c *Controller) Sources() []manifest.Source { return c.opts.Pods.Sources() }

// FaultFor returns why the pod's manifest may not be in effect as it is in the source,
// empty if it is. HeldFor has what keeps a valid manifest from coming into effect.
func (c *Controller) FaultFor(uid types.UID) string { return c.opts.Pods.FaultFor(c.ManifestUID(uid)) }

// Subscribe returns a channel that receives (capacity 1, coalescing) after faults or
// rollouts changed, and a function that ends the subscription.
func (c *Controller) Subscribe() (<-chan struct{}, func()) { return c.subscribers.Subscribe() }

// Observe notes the status of a pod that was published, which is not written to
// afterwards. It does not wait for anything.
func (c *Controller) Observe(uid types.UID, st *v1.PodStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.byUID[uid]
	if r == nil {
		return
	}
	if r.observe(st, time.Now()) || r.state != Stable && r.state != Undone {
		c.observed.Notify()
	}
}

// Reconsider judges the revisions in effect again: the runtime went away or is back. It does
// not wait for anything.
func (c *Controller) Reconsider() { c.observed.Notify() }

// RetryPreparations tries preparations again that failed: something changed that they may have
// waited for.
func (c *Controller) RetryPreparations() { c.retries.Notify() }

// ManifestUID returns the UID that the newest revision in the manifest has of the pod
// with this UID: another one while another revision is in effect. It is the UID itself
// for all other pods.
func (c *Controller) ManifestUID(uid types.UID) types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.byUID[uid]; r != nil {
		return r.manifest.UID
	}
	return uid
}

// DeclaredUID returns the UID in the manifest from which the pod with this UID was
// made: another one if its images differ from the manifest's.
func (c *Controller) DeclaredUID(uid types.UID) types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.byUID[uid]; r != nil {
		return r.current.manifestUID
	}
	return uid
}
