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

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
)

const (
	// readyDelay collects what RecordReady marks into one write: flash memory
	// wears, and many pods become Ready at nearly the same time.
	readyDelay = 5 * time.Second
	// saveRetry is the delay before a failed write is retried, unless a change
	// causes an earlier write.
	saveRetry = 10 * time.Second
)

// Checkpoint stores across restarts and upgrades what was accepted from each
// source, unit by unit, and which manifest owns which pod name. It is written
// when that changes, never periodically.
//
// Sources read their last good revisions from it; only PodConfig replaces them.
// All methods are safe for concurrent use.
type Checkpoint struct {
	path string
	log  *slog.Logger
	file *statefile.File[checkpointState]
	disk statefile.Disk
	// saveRequests notifies Run.
	saveRequests wakeup.Signal

	mu    sync.Mutex
	state checkpointState
	// changes counts the changes of state; saved is the count that was written.
	changes, saved uint64
	saveErr        error

	// saving is held during a write.
	saving sync.Mutex
}

// OpenCheckpoint reads the checkpoint file at path and creates its directory
// (mode 0700) if necessary; if that fails, each write tries again. A damaged
// file, or one of a newer version, is moved aside with a warning, and the
// checkpoint is empty. With an empty path the checkpoint is kept in memory only.
// The error is for a file that cannot be read.
func OpenCheckpoint(path string, log *slog.Logger, disk statefile.Disk) (*Checkpoint, error) {
	c := &Checkpoint{path: path, log: log, file: checkpointFormat.File(path, disk), disk: disk,
		saveRequests: wakeup.NewSignal()}
	c.state = newCheckpointState()
	if path == "" {
		return c, nil
	}
	return c, c.load()
}

// Run writes what RecordReady marked, after a delay and together, and retries
// failed writes, until ctx ends; then it writes what is left. All other changes
// are written immediately by the caller that makes them.
func (c *Checkpoint) Run(ctx context.Context) error {
	timer := time.NewTimer(saveRetry)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = c.Save() // it logs the error
			return nil
		case <-c.saveRequests.C():
			timer.Reset(readyDelay)
		case <-timer.C:
			if c.Save() != nil {
				timer.Reset(saveRetry)
			}
		}
	}
}

// RecordReady records that the pod was Ready with the manifest revision in
// effect. Once all pods of a unit's revision were Ready, the revision is kept
// as the unit's previous one when it is replaced. RecordReady does not wait for
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

func (c *Checkpoint) requestSave() { c.saveRequests.Notify() }

// Previous returns the last revision of the unit that was Ready before the one
// in effect; false if there is none.
func (c *Checkpoint) Previous(source Source, unit string) (Unit, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	record, ok := c.state.Sources[source].Units[unit]
	if !ok || record.Previous == nil {
		return Unit{}, false
	}
	return record.Previous.unit(unit), true
}

// accepted returns the revision of the unit that is in effect.
func (c *Checkpoint) accepted(source Source, unit string) (Unit, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	record, ok := c.state.Sources[source].Units[unit]
	if !ok {
		return Unit{}, false
	}
	return record.unit(unit), true
}

// units returns the revisions in effect of all units of a source, sorted by
// name.
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

// known returns a lookup function for a Loader: the pod made from the document
// of that source with that digest, on that node. The path is not considered, so
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

// wasLost reports whether a checkpoint could not be used, and the source has
// not had a complete set since, not even in an earlier run of the daemon. Until
// then, the absence of a unit means nothing.
func (c *Checkpoint) wasLost(source Source) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Lost && !c.state.Sources[source].Whole
}

// directory returns the identity of the directory that the source's units were
// last read from.
func (c *Checkpoint) directory(source Source) directoryIdentity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Sources[source].Directory
}

// setDirectory is written with the next change of the units.
func (c *Checkpoint) setDirectory(source Source, directory directoryIdentity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	record := c.state.Sources[source]
	if record.Directory == directory {
		return
	}
	record.Directory = directory
	c.state.Sources[source] = record
	c.changes++
}

// claims returns the owners of the pod names. The map is never written to.
func (c *Checkpoint) claims() map[string]claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Claims
}

// setClaims takes ownership of the map; the caller must not write to it again.
func (c *Checkpoint) setClaims(claims map[string]claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Claims = claims
	c.changes++
}

// objectOwners returns the units whose objects are in effect, by object
// reference. The map is never written to.
func (c *Checkpoint) objectOwners() map[string]objectOwner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.ObjectOwners
}

// setObjectOwners takes ownership of the map; the caller must not write to it
// again.
func (c *Checkpoint) setObjectOwners(owners map[string]objectOwner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.ObjectOwners = owners
	c.changes++
}

// revisionKey returns the key for the revisions of objects. It is created when
// it is first needed.
func (c *Checkpoint) revisionKey() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.RevisionKey == "" {
		c.state.RevisionKey = rand.Text()
		c.changes++
	}
	return c.state.RevisionKey
}

// accept makes these revisions the ones in effect. If the set is complete,
// units that are not in it are removed.
func (c *Checkpoint) accept(source Source, units []Unit, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.accept(source, units, whole) {
		c.changes++
	}
}

// remove deletes the records of units that are confirmed to be absent, so that
// what they declared does not return if a unit of that name does.
func (c *Checkpoint) remove(source Source, units []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	records := c.state.Sources[source].Units
	for _, name := range units {
		if _, ok := records[name]; ok {
			delete(records, name)
			c.changes++
		}
	}
}
