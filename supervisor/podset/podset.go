package podset

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/manifest"
)

// Set holds the desired pods, and which sources are ready. The sync loop writes it,
// all workers read it. New makes one.
type Set struct {
	mu    sync.RWMutex
	byUID map[types.UID]*v1.Pod
	// delivered are the sources that have delivered a set of their own in this run
	// of the daemon; restored are those with the checkpoint only, without a gap.
	delivered, restored map[manifest.Source]bool
	// changed notifies subscribers after a source became ready.
	changed wakeup.Broadcast
}

// New returns an empty set in which no source is ready.
func New() *Set {
	return &Set{
		byUID:     map[types.UID]*v1.Pod{},
		delivered: map[manifest.Source]bool{},
		restored:  map[manifest.Source]bool{},
	}
}

// Store adds a pod, or replaces the one with its UID.
func (s *Set) Store(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byUID[pod.UID] = pod
}

// Remove removes a pod and reports whether it was there. A source cannot remove a pod
// that another source has delivered since.
func (s *Set) Remove(pod *v1.Pod, source manifest.Source) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.byUID[pod.UID]
	if !ok || podinfo.SourceOf(held) != source {
		return false
	}
	delete(s.byUID, pod.UID)
	return true
}

// List returns the pods in no order.
func (s *Set) List() []*v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pods := make([]*v1.Pod, 0, len(s.byUID))
	for _, pod := range s.byUID {
		pods = append(pods, pod)
	}
	return pods
}

// MarkReady records an update of a source and reports whether it makes the source
// ready. Only an ADD does: the first set of a source ends with one, and a REMOVE
// before it is only a part of the set.
func (s *Set) MarkReady(u manifest.PodUpdate) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := false
	switch u.Op {
	case manifest.Restore:
		if u.Awaited {
			break
		}
		first = !s.restored[u.Source]
		s.restored[u.Source] = true
	case manifest.Add:
		first = !s.delivered[u.Source]
		s.delivered[u.Source] = true
	}
	if first {
		s.changed.Notify()
	}
	return first && u.Op == manifest.Add
}

// IsReady reports whether a source has delivered its pods; for an unknown source,
// whether all of the given have.
func (s *Set) IsReady(source manifest.Source, all []manifest.Source) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if slices.Contains(all, source) {
		return s.delivered[source]
	}
	for _, known := range all {
		if !s.delivered[known] {
			return false
		}
	}
	// Without sources nothing may be terminated.
	return len(all) > 0
}

// AllReady reports whether each source has delivered or was restored. A source that may
// be away forever, such as an API server, is not waited for.
func (s *Set) AllReady(all []manifest.Source) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, source := range all {
		if !podinfo.PolicyFor(source).MayBeAway && !s.delivered[source] && !s.restored[source] {
			return false
		}
	}
	return true
}

// Subscribe returns a channel that receives after AllReady may have changed, and a function
// that ends the subscription.
func (s *Set) Subscribe() (<-chan struct{}, func()) { return s.changed.Subscribe() }
