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
)

// Periods of the PLEG. They are the kubelet's where it has them.
const (
	// RelistPeriod is from the end of a full relist to the next one.
	RelistPeriod = time.Second
	// EventedPeriod is the same while the event stream can be trusted. The
	// kubelet takes 300 s, and finds a lost event no earlier.
	EventedPeriod = time.Minute
	// MistrustFor is how long the stream is not trusted after it failed to
	// tell of a change.
	MistrustFor = 10 * time.Minute
	// UnhealthyAfter is the age of the last full relist that is too old.
	UnhealthyAfter = 3 * time.Minute
)

const (
	// settleTime is how long a stream must stand before a full relist may
	// rely on it. Nothing in CRI says when a stream has begun.
	settleTime = time.Second
	// tellTime is how long after a list an event may still come for what the
	// list already showed.
	tellTime = time.Second
	// endDelay and startDelay gather the events of one change. An end is what
	// a restart waits for; a start is mostly the work of a worker that asks for
	// its own look when it is done.
	endDelay   = 10 * time.Millisecond
	startDelay = 100 * time.Millisecond
	// maxHints bounds the events kept for one look.
	maxHints = 16
	// The back-off of failed looks at one pod.
	retryMin = 250 * time.Millisecond
	retryMax = 10 * time.Second
	// parallelLooks bounds the looks at pods under way at once.
	parallelLooks = 8
)

// Runtime is what the PLEG asks of the container runtime. *cri.Client is one.
type Runtime interface {
	List(ctx context.Context) (*cri.Observed, error)
	PodStatus(ctx context.Context, uid types.UID) (*cri.PodStatus, error)
	// Events blocks while the stream stands and always returns an error.
	Events(ctx context.Context, f func(cri.Event)) error
}

// Config is what a PLEG needs.
type Config struct {
	Runtime Runtime
	// Log may be nil.
	Log *slog.Logger
	// Generic turns the event stream off.
	Generic bool
	// Relisted is told of each full list that succeeded: what it took, and how
	// long after the one before it began, 0 for the first. Nil tells nobody.
	Relisted func(took, since time.Duration)
}

// Kind is the kind of an Event.
type Kind uint8

// The kinds of events.
const (
	// ContainerStarted and ContainerDied tell of one container instance. One
	// that started and died between two looks causes both.
	ContainerStarted Kind = iota + 1
	ContainerDied
	// ContainerRemoved tells that the instance is no longer known.
	ContainerRemoved
	// PodSync tells that a sandbox changed, or a container in a way that has
	// no kind of its own.
	PodSync
	// ForeignChanged tells that a pod that is not ours came, went or changed.
	ForeignChanged
)

// String is the kind's name in logs, the kubelet's where it has one.
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

// Event says that something of a pod changed. The cache held the change
// before the event could be taken.
type Event struct {
	UID  types.UID
	Kind Kind
	// ContainerID is empty for PodSync and ForeignChanged.
	ContainerID string
}

// Stats are counters since the start.
type Stats struct {
	// Relists counts full lists that succeeded, RelistErrors those that failed.
	Relists, RelistErrors uint64
	// LastRelist is when the last one was asked for, LastDuration what it took.
	LastRelist   time.Time
	LastDuration time.Duration
	// Looks counts looks at single pods, LookErrors those that failed.
	Looks, LookErrors uint64
	// Hints counts events of the runtime's stream.
	Hints uint64
	// Evented says that the stream is trusted and full lists are rare.
	Evented bool
}

// PLEG watches the runtime. It is safe for concurrent use.
type PLEG struct {
	runtime  Runtime
	log      *slog.Logger
	generic  bool
	relisted func(took, since time.Duration)

	changed    chan struct{} // wakes whoever takes events
	relistWake chan struct{} // wakes the relist loop
	lookWake   chan struct{} // wakes the look loop

	mu     sync.Mutex
	cache  cache
	looks  queue
	stream stream
	list   listState
	events eventSet
	stats  Stats
}

// New makes a PLEG; nothing is asked before Run.
func New(cfg Config) *PLEG {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Relisted == nil {
		cfg.Relisted = func(time.Duration, time.Duration) {}
	}
	return &PLEG{
		relisted:   cfg.Relisted,
		runtime:    cfg.Runtime,
		log:        cfg.Log,
		generic:    cfg.Generic,
		changed:    make(chan struct{}, 1),
		relistWake: make(chan struct{}, 1),
		lookWake:   make(chan struct{}, 1),
		cache:      newCache(),
		looks:      newQueue(),
		stream:     newStream(),
		events:     eventSet{seen: map[Event]struct{}{}},
	}
}

// Run watches until ctx ends. It is to be called once.
func (p *PLEG) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { p.relistLoop(ctx) })
	wg.Go(func() { p.lookLoop(ctx) })
	if !p.generic {
		wg.Go(func() { p.streamLoop(ctx) })
	}
	wg.Wait()
	return ctx.Err()
}

// Changed is woken after events came; wake-ups coalesce.
func (p *PLEG) Changed() <-chan struct{} { return p.changed }

// Take takes the events gathered since the last call, in the order in which
// they were found, each once.
func (p *PLEG) Take() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events.take()
}

// Relist asks for a look at one pod at once, such as after an act on it. It
// does not block. The look is repeated until it, or a full relist, succeeded.
func (p *PLEG) Relist(uid types.UID) {
	now := time.Now()
	p.mu.Lock()
	p.looks.ask(uid, now, now)
	p.mu.Unlock()
	wake(p.lookWake)
}

// Healthy is an error if the last full relist is older than three minutes, or
// if there was none yet: what is known of the pods may then be wrong.
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

// Stats is a snapshot of the counters.
func (p *PLEG) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// wake sends a coalescing wake-up.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
