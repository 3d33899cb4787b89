package supervisor

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// podSet holds the wanted pods, and which sources are ready. The sync loop writes it,
// all workers read it.
type podSet struct {
	mu    sync.RWMutex
	byUID map[types.UID]*v1.Pod
	// delivered are the sources that have delivered a set of their own in this run
	// of the daemon; restored are those with the checkpoint only.
	delivered, restored map[manifest.Source]bool
	// changed is closed and replaced when a source becomes ready.
	changed chan struct{}
}

func newPodSet() *podSet {
	return &podSet{
		byUID:     map[types.UID]*v1.Pod{},
		delivered: map[manifest.Source]bool{},
		restored:  map[manifest.Source]bool{},
		changed:   make(chan struct{}),
	}
}

func (s *podSet) put(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byUID[pod.UID] = pod
}

// remove removes a pod and reports whether it was there. A source cannot remove a pod
// that another source has delivered since.
func (s *podSet) remove(pod *v1.Pod, source manifest.Source) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.byUID[pod.UID]
	if !ok || podinfo.SourceOf(held) != source {
		return false
	}
	delete(s.byUID, pod.UID)
	return true
}

func (s *podSet) list() []*v1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pods := make([]*v1.Pod, 0, len(s.byUID))
	for _, pod := range s.byUID {
		pods = append(pods, pod)
	}
	return pods
}

// markReady records an update of a source and reports whether it makes the source
// ready. Only an ADD does: the first set of a source ends with one, and a REMOVE
// before it is only a part of the set.
func (s *podSet) markReady(u manifest.PodUpdate) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := false
	switch u.Op {
	case manifest.Restore:
		first = !s.restored[u.Source]
		s.restored[u.Source] = true
	case manifest.Add:
		first = !s.delivered[u.Source]
		s.delivered[u.Source] = true
	}
	if first {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return first && u.Op == manifest.Add
}

// isReady reports whether a source has delivered its pods; for an unknown source,
// whether all of the given have.
func (s *podSet) isReady(source manifest.Source, all []manifest.Source) bool {
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

// allReady reports whether each source has delivered or was restored, and returns a
// channel that is closed when that may have changed. A source that may be away
// forever, such as an API server, is not waited for.
func (s *podSet) allReady(all []manifest.Source) (bool, <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, source := range all {
		if !podinfo.PolicyFor(source).MayBeAway && !s.delivered[source] && !s.restored[source] {
			return false, s.changed
		}
	}
	return true, s.changed
}
