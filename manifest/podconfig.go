package manifest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodConfigOptions are what a PodConfig needs.
type PodConfigOptions struct {
	// Sources are those that will deliver. Cleanup waits for each of them.
	Sources []Source
	// Checkpoint remembers what was accepted; nil remembers in memory only.
	Checkpoint *Checkpoint
	Log        *slog.Logger
}

// PodConfig merges the full sets of all sources into ordered changes.
//
// It decides who owns a pod name that two manifests declare, and so what is in
// effect of each unit; the checkpoint remembers that. A set of one source can
// change what is in effect of another: a name that became free goes at once to
// who waits for it.
//
// The updates of one set are REMOVE, ADD, UPDATE, DELETE, RECONCILE, each only
// if there are such pods, but that the first set of a source that is not
// restored ends in an ADD, an empty one if need be. A restored set brings
// RESTORE in place of ADD. If it changes what is in effect of other sources,
// every REMOVE comes before all else. A pod whose uid a user set and whose
// name changed is removed and added. Applied in order, the updates give the
// sets in effect; at no time do two pods of them have the same namespace and
// name.
type PodConfig struct {
	sources    []Source
	checkpoint *Checkpoint
	log        *slog.Logger
	now        func() time.Time
	updates    chan PodUpdate
	objects    *Objects
	// queued wakes Run (capacity 1, coalescing).
	queued chan struct{}

	mu           sync.Mutex
	queue        []PodUpdate
	states       map[Source]*sourceState
	podFaults    map[types.UID]string
	loggedFaults map[string]string
	subscribers  map[chan struct{}]struct{}
}

// sourceState is what PodConfig knows of one source.
type sourceState struct {
	// offer is the newest set; its Units are as the source offers them.
	offer Set
	// units are those in effect, with the faults of what is refused.
	units []Unit
	// accepted is what the checkpoint is to have of them, while they merge.
	accepted []Unit
	pods     map[types.UID]*v1.Pod
	// heard says that there was a set, delivered that one was not restored.
	reported, delivered bool
	// good says that nothing of it is held back, lastGood when that was last
	// found to be so; zero if it never was.
	good     bool
	lastGood time.Time
}

// NewPodConfig makes a PodConfig; it starts nothing.
func NewPodConfig(opts PodConfigOptions) *PodConfig {
	c := &PodConfig{
		sources:      slices.Clone(opts.Sources),
		checkpoint:   opts.Checkpoint,
		log:          opts.Log,
		now:          time.Now,
		updates:      make(chan PodUpdate),
		objects:      newObjects(),
		queued:       make(chan struct{}, 1),
		states:       map[Source]*sourceState{},
		podFaults:    map[types.UID]string{},
		loggedFaults: map[string]string{},
		subscribers:  map[chan struct{}]struct{}{},
	}
	if c.checkpoint == nil {
		c.checkpoint, _ = OpenCheckpoint("", opts.Log) // reads nothing, cannot fail
	}
	for _, source := range c.sources {
		c.states[source] = &sourceState{pods: map[types.UID]*v1.Pod{}}
	}
	c.mergeObjects()
	return c
}

// Run hands the updates over, in order, until ctx ends. They wait in a queue
// without a bound: its reader may be slow, but no source waits for it, and
// nothing is lost. It grows only with changes of manifests.
func (c *PodConfig) Run(ctx context.Context) error {
	for {
		update, ok := c.next()
		if !ok {
			select {
			case <-ctx.Done():
				return nil
			case <-c.queued:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case c.updates <- update:
		}
	}
}

func (c *PodConfig) next() (PodUpdate, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.queue = nil // lets go of the pods that it held
		return PodUpdate{}, false
	}
	update := c.queue[0]
	c.queue = c.queue[1:]
	return update, true
}

// Updates are the changes in the order in which they happened. The channel
// has no buffer and is never closed.
func (c *PodConfig) Updates() <-chan PodUpdate { return c.updates }

// Sources are the registered ones.
func (c *PodConfig) Sources() []Source { return slices.Clone(c.sources) }

// Objects are what manifests declare beside pods. They are up to date before
// the updates of the same set are handed over.
func (c *PodConfig) Objects() *Objects { return c.objects }

// Deliver merges the full set of one source. It never waits for whoever reads
// the updates. When it returns, the checkpoint has been written, if that can
// be. A set of a source that is not registered is ignored. The set's units
// and pods must not be written to afterwards.
func (c *PodConfig) Deliver(set Set) {
	c.mu.Lock()
	state := c.states[set.Source]
	if state == nil {
		c.mu.Unlock()
		c.log.Error("Ignoring pods from unregistered source", "source", set.Source)
		return
	}
	first := !set.Restored && !state.delivered
	state.offer, state.reported = set, true
	state.delivered = state.delivered || !set.Restored
	c.merge(set.Source, first)
	c.refreshFaults()
	c.updateLastGood()
	c.notifySubscribers()
	c.mu.Unlock()

	select {
	case c.queued <- struct{}{}:
	default:
	}
	if err := c.checkpoint.Save(); err != nil {
		c.checkpoint.requestSave()
	}
}
