package status

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/wakeup"
)

// tombstones is how many deletions a Store remembers. A subscriber that is further
// behind gets a full snapshot.
const tombstones = 1000

// Store holds the published status of every pod and notifies its subscribers of
// changes. It is safe for concurrent use. What it returns is shared and must not be
// written to.
type Store struct {
	mu          sync.RWMutex
	version     uint64
	statuses    map[types.UID]published
	gone        []deletion // oldest first
	forgotten   uint64     // version of the newest deletion that was dropped
	subscribers wakeup.Broadcast
}

type published struct {
	status  *v1.PodStatus
	version uint64
}

type deletion struct {
	uid     types.UID
	version uint64
}

// Snapshot has the changes of a Store since a version.
type Snapshot struct {
	// Version is the store's version, the argument of the next Since.
	Version uint64
	// Full: Changed has every status, and all others were deleted.
	Full bool
	// Changed are the statuses set since.
	Changed map[types.UID]*v1.PodStatus
	// Gone are the pods deleted since and not set again.
	Gone []types.UID
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{statuses: map[types.UID]published{}}
}

// Set publishes the status of a pod and reports whether it differs from the previous
// one. The store keeps what the status points to: the caller must not write to it
// again. An equal status notifies no subscriber.
func (s *Store) Set(uid types.UID, st v1.PodStatus) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.statuses[uid]; ok && equality.Semantic.DeepEqual(*old.status, st) {
		return false
	}
	s.version++
	s.statuses[uid] = published{status: &st, version: s.version}
	s.subscribers.Notify()
	return true
}

// Get returns the published status of a pod, and whether there is one.
func (s *Store) Get(uid types.UID) (v1.PodStatus, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, ok := s.statuses[uid]
	if !ok {
		return v1.PodStatus{}, false
	}
	return *p.status, true
}

// Current returns the published status of a pod, nil if there is none. The same
// pointer is the same status.
func (s *Store) Current(uid types.UID) *v1.PodStatus {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.statuses[uid].status
}

// Delete deletes the status of a pod.
func (s *Store) Delete(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.statuses[uid]; !ok {
		return
	}
	delete(s.statuses, uid)
	s.version++
	if len(s.gone) == tombstones {
		s.forgotten = s.gone[0].version
		s.gone = append(s.gone[:0], s.gone[1:]...)
	}
	s.gone = append(s.gone, deletion{uid: uid, version: s.version})
	s.subscribers.Notify()
}

// List returns every published status by UID.
func (s *Store) List() map[types.UID]*v1.PodStatus {
	return s.Since(0).Changed
}

// Since returns what changed after the given version; 0 returns everything.
func (s *Store) Since(version uint64) Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	snap := Snapshot{
		Version: s.version,
		Full:    version == 0 || version < s.forgotten,
		Changed: map[types.UID]*v1.PodStatus{},
	}
	for uid, p := range s.statuses {
		if snap.Full || p.version > version {
			snap.Changed[uid] = p.status
		}
	}
	if snap.Full {
		return snap
	}
	for _, d := range s.gone {
		if _, back := s.statuses[d.uid]; d.version > version && !back {
			snap.Gone = append(snap.Gone, d.uid)
		}
	}
	return snap
}

// Subscribe returns a channel that receives after a change; notifications coalesce
// and the state is read with Since. The returned function ends the subscription.
func (s *Store) Subscribe() (<-chan struct{}, func()) { return s.subscribers.Subscribe() }

// Touch notifies the subscribers although no status changed, because the set of pods
// did, or something that is shown together with their statuses.
func (s *Store) Touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers.Notify()
}
