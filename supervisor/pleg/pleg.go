package pleg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/wakeup"
)

// Periods of the PLEG. They are the kubelet's where it has them.
const (
	// RelistPeriod is the time from the end of one relist to the next.
	RelistPeriod = time.Second
	// EventedPeriod replaces it while the event stream is trusted. The kubelet's
	// is 300 s, so that it finds a lost event no earlier.
	EventedPeriod = time.Minute
	// MistrustFor is how long the stream is not trusted after it missed a
	// change.
	MistrustFor = 10 * time.Minute
	// UnhealthyAfter is the age of the last relist from which on it is too old.
	UnhealthyAfter = 3 * time.Minute
)

const (
	// settleTime is how long a stream must be open before it is trusted. CRI does
	// not report when a stream has begun.
	settleTime = time.Second
	// eventGrace is how long after a list an event may still come for what the
	// list already showed.
	eventGrace = time.Second
	// endDelay and startDelay collect the events of one change. A restart waits
	// for an exit; a start is mostly the work of a worker, which requests its own
	// inspection when it is done.
	endDelay   = 10 * time.Millisecond
	startDelay = 100 * time.Millisecond
	// maxHints bounds the events that are kept for one inspection.
	maxHints = 16
	// The back-off of failed inspections of one pod.
	retryMin = 250 * time.Millisecond
	retryMax = 10 * time.Second
	// parallelInspections bounds the inspections in flight at once.
	parallelInspections = 8
)

// Runtime is the part of the container runtime that the PLEG reads. Implemented by
// cri.Client.
type Runtime interface {
	List(ctx context.Context) (*cri.Observed, error)
	PodStatus(ctx context.Context, uid types.UID) (*cri.PodStatus, error)
	// Events blocks while the stream is open and always returns an error.
	Events(ctx context.Context, f func(cri.Event)) error
}

// OOMKills are the kernel's records of OOM kills. Implemented by oom.Watcher.
type OOMKills interface {
	// Explains reports whether the kernel killed a process of the container for
	// memory when the container ended.
	Explains(containerID string, finished time.Time) bool
}

// Config configures a PLEG.
type Config struct {
	Runtime Runtime
	// OOMKills are asked about containers that SIGKILL ended without a reason from the
	// runtime; nil knows none.
	OOMKills OOMKills
	// Log may be nil, which discards.
	Log *slog.Logger
	// Generic turns the event stream off.
	Generic bool
	// Relisted is called for each relist that succeeded: with its duration, and
	// the time since the start of the previous one, 0 for the first. It may be nil.
	Relisted func(took, since time.Duration)
}

// Kind is the kind of an Event.
type Kind uint8

// The kinds of events.
const (
	// ContainerStarted and ContainerDied are about one container instance. An
	// instance that started and died between two inspections causes both.
	ContainerStarted Kind = iota + 1
	ContainerDied
	// ContainerRemoved: the runtime no longer has the instance.
	ContainerRemoved
	// PodSync: a sandbox changed, or a container in a way that has no kind of its
	// own.
	PodSync
	// ForeignChanged: a pod of another client appeared, disappeared or changed.
	ForeignChanged
)

// String returns the kind's name in logs, the kubelet's where it has one.
func (k Kind) String() string {
	switch k {
	case ContainerStarted:
		return "ContainerStarted"
	case ContainerDied:
		return "ContainerDied"
	case ContainerRemoved:
		return "ContainerRemoved"
	case PodSync:
		return "PodSync"
	case ForeignChanged:
		return "ForeignChanged"
	}
	return "Unknown"
}

// Event reports a change of a pod. The cache shows the change before the event
// can be taken.
type Event struct {
	UID  types.UID
	Kind Kind
	// ContainerID is empty for PodSync and ForeignChanged.
	ContainerID string
}

// Stats are counters since the start.
type Stats struct {
	// Relists counts relists that succeeded, RelistErrors those that failed.
	Relists, RelistErrors uint64
	// LastRelist is when the last one was requested, LastDuration how long it took.
	LastRelist   time.Time
	LastDuration time.Duration
	// Inspections counts inspections of single pods, InspectionErrors those that
	// failed.
	Inspections, InspectionErrors uint64
	// Hints counts events of the runtime's stream.
	Hints uint64
	// Evented: the stream is trusted and relists are rare.
	Evented bool
}

// PLEG watches the runtime. It is safe for concurrent use.
type PLEG struct {
	runtime  Runtime
	kills    OOMKills
	log      *slog.Logger
	generic  bool
	relisted func(took, since time.Duration)

	changed       wakeup.Signal // notifies the reader of events
	relistNotify  wakeup.Signal // notifies the relist loop
	inspectNotify wakeup.Signal // notifies the inspect loop

	mu          sync.Mutex
	cache       cache
	inspections queue
	stream      stream
	list        listState
	events      eventSet
	stats       Stats
}

// New returns a PLEG. It starts nothing.
func New(cfg Config) *PLEG {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Relisted == nil {
		cfg.Relisted = func(time.Duration, time.Duration) {}
	}
	return &PLEG{
		relisted:      cfg.Relisted,
		runtime:       cfg.Runtime,
		kills:         cfg.OOMKills,
		log:           cfg.Log,
		generic:       cfg.Generic,
		changed:       wakeup.NewSignal(),
		relistNotify:  wakeup.NewSignal(),
		inspectNotify: wakeup.NewSignal(),
		cache:         newCache(),
		inspections:   newQueue(),
		stream:        newStream(),
		events:        eventSet{seen: map[Event]struct{}{}},
	}
}

// Run observes until ctx ends. It is called once.
func (p *PLEG) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { p.relistLoop(ctx) })
	wg.Go(func() { p.inspectLoop(ctx) })
	if !p.generic {
		wg.Go(func() { p.streamLoop(ctx) })
	}
	wg.Wait()
	return ctx.Err()
}

// Changed receives after events came; notifications coalesce.
func (p *PLEG) Changed() <-chan struct{} { return p.changed.C() }

// Drain returns the events since the last call, in the order in which they were
// found, each once.
func (p *PLEG) Drain() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events.drain()
}

// Relist requests an immediate inspection of one pod, such as after an act on it.
// It does not block. The inspection is repeated until it, or a relist, succeeded.
func (p *PLEG) Relist(uid types.UID) {
	now := time.Now()
	p.mu.Lock()
	p.inspections.request(uid, now, now)
	p.mu.Unlock()
	p.inspectNotify.Notify()
}

// Healthy returns an error if the last relist is older than UnhealthyAfter, or if
// there was none yet: the cache may then be wrong.
func (p *PLEG) Healthy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list.ended.IsZero() {
		return errors.New("pods have not been listed yet")
	}
	if age := time.Since(p.list.ended); age > UnhealthyAfter {
		return fmt.Errorf("pods were last listed %v ago, which is more than %v", age.Round(time.Second), UnhealthyAfter)
	}
	return nil
}

// Stats returns a snapshot of the counters.
func (p *PLEG) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// notify sends a coalescing notification.
