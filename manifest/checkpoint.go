package manifest

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// readyDelay gathers what RecordReady marks into one write: flash wears,
	// and fifty pods become Ready at nearly the same time.
	readyDelay = 5 * time.Second
	// saveRetry is how long a failed write waits for its next try, unless
	// something changes earlier.
	saveRetry = 30 * time.Second
)

// Checkpoint remembers across restarts and upgrades what was accepted from
// each source, unit by unit, and which manifest owns which pod name. It is
// written when that changes, never on a timer.
//
// A source looks its last good revisions up here; PodConfig alone replaces
// them. All methods may be called by several goroutines.
type Checkpoint struct {
	path string
	log  *slog.Logger
	// readyMarked wakes Run (capacity 1, coalescing).
	saveRequests chan struct{}

	mu    sync.Mutex
	state checkpointState
	// changes counts what happened to state; saved is the count on the disk.
	changes, saved uint64
	saveErr        error

	// saving is held for as long as one write takes.
	saving sync.Mutex
}

// OpenCheckpoint reads the checkpoint file at path, whose folder is made
// (mode 0700) if need be. A damaged file, or one of a newer version, is
// renamed aside with a warning, and the checkpoint is empty. An empty path
// keeps the checkpoint in memory only. The error is for a folder or a file
// that cannot be read.
func OpenCheckpoint(path string, log *slog.Logger) (*Checkpoint, error) {
	c := &Checkpoint{path: path, log: log, saveRequests: make(chan struct{}, 1)}
	c.state = newCheckpointState()
	if path == "" {
		return c, nil
	}
	return c, c.load()
}

// Run writes what RecordReady marked, a little later and together, and tries
// again what could not be written, until ctx ends; then it writes what is
// left. Everything else is written at once by whoever changes it.
func (c *Checkpoint) Run(ctx context.Context) error {
	timer := time.NewTimer(saveRetry)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			c.Save()
			return nil
		case <-c.saveRequests:
			timer.Reset(readyDelay)
		case <-timer.C:
			if c.Save() != nil {
				timer.Reset(saveRetry)
			}
		}
	}
}

// RecordReady remembers that the pod was Ready with the manifest revision
// that is in effect. Once all pods of a unit's revision were, it is kept as
// the unit's previous one when it is replaced. RecordReady does not wait for
// the disk. An unknown UID is ignored.
func (c *Checkpoint) RecordReady(uid types.UID) {
	c.mu.Lock()
	marked := c.state.markReady(uid)
	if marked {
		c.changes++
	}
	c.mu.Unlock()
	if marked {
		c.requestSave()
	}
}

func (c *Checkpoint) requestSave() {
	select {
	case c.saveRequests <- struct{}{}:
	default:
	}
}

// Previous is the last revision of the unit that was Ready before the one in
// effect; false if there was none.
func (c *Checkpoint) Previous(source Source, unit string) (Unit, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	record, ok := c.state.Sources[source].Units[unit]
	if !ok || record.Previous == nil {
		return Unit{}, false
	}
	return record.Previous.unit(unit), true
}

// accepted is the revision of the unit that is in effect.
func (c *Checkpoint) accepted(source Source, unit string) (Unit, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	record, ok := c.state.Sources[source].Units[unit]
	if !ok {
		return Unit{}, false
	}
	return record.unit(unit), true
}

// units are the revisions in effect of all units of a source, by their names.
func (c *Checkpoint) units(source Source) []Unit {
	c.mu.Lock()
	defer c.mu.Unlock()
	records := c.state.Sources[source].Units
	units := make([]Unit, 0, len(records))
	for name, record := range records {
		units = append(units, record.unit(name))
	}
	slices.SortFunc(units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
	return units
}

// known returns a lookup for a Loader: the pod that was made of a document of
// that source with that digest, on that node. The path is no part of it, so
// that a renamed file keeps its pods.
func (c *Checkpoint) known(source Source, node string) func(string) (*v1.Pod, bool) {
	return func(digest string) (*v1.Pod, bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		pod := c.state.find(source, digest)
		if pod == nil || !isOfNode(pod, node) {
			return nil, false
		}
		return pod, true
	}
}

func isOfNode(pod *v1.Pod, node string) bool {
	return node == "" || pod.Spec.NodeName == node
}

// wasLost reports whether a checkpoint was there that could not be used, and
// the source had no whole set since, not even in an earlier run of the daemon:
// so long its silence about a unit says nothing.
func (c *Checkpoint) wasLost(source Source) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Lost && !c.state.Sources[source].Whole
}

// folder is the folder that the source's units were last read from.
func (c *Checkpoint) directory(source Source) directoryIdentity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Sources[source].Directory
}

// setFolder is written with the next change of the units.
func (c *Checkpoint) setDirectory(source Source, folder directoryIdentity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	record := c.state.Sources[source]
	if record.Directory == folder {
		return
	}
	record.Directory = folder
	c.state.Sources[source] = record
	c.changes++
}

// claims are the owners of the pod names. The map is never written to.
func (c *Checkpoint) claims() map[string]claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Claims
}

// setClaims takes the map over; the caller must not write to it again.
func (c *Checkpoint) setClaims(claims map[string]claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Claims = claims
	c.changes++
}

// objectOwners are the units whose objects are in effect, by the objects'
// references. The map is never written to.
func (c *Checkpoint) objectOwners() map[string]objectOwner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.ObjectOwners
}

// setObjectOwners takes the map over; the caller must not write to it again.
func (c *Checkpoint) setObjectOwners(owners map[string]objectOwner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.ObjectOwners = owners
	c.changes++
}

// revisionKey is the key of the objects' revisions, which is made when it is
// first needed.
func (c *Checkpoint) revisionKey() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.RevisionKey == "" {
		c.state.RevisionKey = rand.Text()
		c.changes++
	}
	return c.state.RevisionKey
}

// accept makes these revisions those in effect. Units that are not among them
// are forgotten if the set is whole.
func (c *Checkpoint) accept(source Source, units []Unit, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.accept(source, units, whole) {
		c.changes++
	}
}
