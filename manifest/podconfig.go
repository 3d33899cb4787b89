package manifest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
)

// PodConfigOptions configures a PodConfig.
type PodConfigOptions struct {
	// Sources are the sources that will deliver. Cleanup waits for each of
	// them.
	Sources []Source
	// Checkpoint stores what was accepted; nil stores it in memory only.
	Checkpoint *Checkpoint
	Log        *slog.Logger
}

// PodConfig merges the full sets of all sources into ordered changes.
//
// It decides which manifest owns a pod name that two manifests declare, and so
// what is in effect of each unit; the checkpoint stores that. A set of one
// source can change what is in effect of another: a name that becomes free is
// given at once to the manifest that waits for it.
//
// The updates of one set are REMOVE, ADD, UPDATE, DELETE, RECONCILE, each only
// if there are such pods, except that the first complete set of a source ends
// with an ADD, an empty one if necessary. A restored set has RESTORE instead of
// ADD. If the set changes what is in effect of other sources, every REMOVE
// comes first. A pod with a user-defined uid whose name changed is removed and
// added. Applied in order, the updates result in the sets in effect; at no time
// do two pods have the same namespace and name.
type PodConfig struct {
	sources    []Source
	checkpoint *Checkpoint
	log        *slog.Logger
	now        func() time.Time
	updates    chan PodUpdate
	objects    *Objects
	// queued notifies Run.
	queued wakeup.Signal

	mu           sync.Mutex
	queue        []PodUpdate
	states       map[Source]*sourceState
	podFaults    map[types.UID]string
	loggedFaults map[string]string
	subscribers  wakeup.Broadcast
}

// sourceState is the state of one source.
type sourceState struct {
	// offer is the newest set; its Units are as the source offers them.
	offer Set
	// units are the units in effect, with the faults of what is rejected.
	units []Unit
	// accepted is what the checkpoint is to store of them, during a merge.
	accepted []Unit
	pods     map[types.UID]*v1.Pod
	// reported reports that there was a set, delivered that there was one that
	// was not restored.
	reported, delivered bool
	// good reports that no unit of it is rejected; lastGood is when that last
	// was so, zero if it never was.
	good     bool
	lastGood time.Time
}

// NewPodConfig creates a PodConfig; it starts nothing.
func NewPodConfig(opts PodConfigOptions) *PodConfig {
	c := &PodConfig{
		sources:      slices.Clone(opts.Sources),
		checkpoint:   opts.Checkpoint,
		log:          opts.Log,
		now:          time.Now,
		updates:      make(chan PodUpdate),
		objects:      newObjects(),
		queued:       wakeup.NewSignal(),
		states:       map[Source]*sourceState{},
		podFaults:    map[types.UID]string{},
		loggedFaults: map[string]string{},
	}
	if c.checkpoint == nil {
		c.checkpoint, _ = OpenCheckpoint("", opts.Log, statefile.Disk{}) // reads nothing, cannot fail
	}
	for _, source := range c.sources {
		c.states[source] = &sourceState{pods: map[types.UID]*v1.Pod{}}
	}
	c.mergeObjects()
	return c
}

// Run passes the updates on, in order, until ctx ends. They wait in an
// unbounded queue: the reader may be slow, but no source waits for it, and
// nothing is lost. The queue grows only with changes of manifests.
func (c *PodConfig) Run(ctx context.Context) error {
	for {
		update, ok := c.next()
		if !ok {
			select {
			case <-ctx.Done():
				return nil
			case <-c.queued.C():
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

// Updates returns the changes in the order in which they happened. The channel
// is unbuffered and never closed.
func (c *PodConfig) Updates() <-chan PodUpdate { return c.updates }

// Sources returns the registered sources.
func (c *PodConfig) Sources() []Source { return slices.Clone(c.sources) }

// Objects returns the objects that manifests declare. They are up to date
// before the updates of the same set are passed on.
func (c *PodConfig) Objects() *Objects { return c.objects }

// MarkRead records that the source was read at that time and had no changes to
// deliver.
func (c *PodConfig) MarkRead(source Source, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state := c.states[source]; state != nil && state.reported {
		state.offer.Time = at
	}
}

// Deliver merges the full set of one source. It never waits for the reader of
// the updates. When it returns, the checkpoint has been written, if possible. A
// set of an unregistered source is ignored. The set's units and pods must not
// be written to afterwards.
func (c *PodConfig) Deliver(set Set) {
	c.mu.Lock()
	state := c.states[set.Source]
	if state == nil {
		c.mu.Unlock()
		c.log.Error("Ignoring pods from unregistered source", "source", set.Source)
		return
	}
	first := !set.Restored && !state.delivered
	before := state.offer
	state.offer, state.reported = set, true
	state.delivered = state.delivered || !set.Restored
	c.merge(set.Source, first)
	c.refreshFaults()
	c.logIncomplete(&before, &set)
	c.updateLastGood()
	c.subscribers.Notify()
	c.mu.Unlock()

	c.queued.Notify()
	if err := c.checkpoint.Save(); err != nil {
		c.checkpoint.requestSave()
	}
}
