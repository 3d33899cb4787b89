package cri

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// stops remembers the containers that are being ended, from one attempt to the
// next: a kill that was given up for a shorter grace, or failed, goes on where
// it was. A hook that has returned is not performed again, one that was broken
// off is. After a restart of the daemon all begins anew. The zero value is
// ready for use.
type stops struct {
	mu   sync.Mutex
	pods map[types.UID]map[string]*stop
}

// stop is one container that is being ended. Only the attempt under way, of
// which there is one at a time, touches it.
type stop struct {
	// due is when its grace period is over.
	due time.Time
	// left replaces due between an attempt that came to nothing and the next.
	left time.Duration
	// hooked: its preStop hook has returned.
	hooked bool
	// asked is when it was first sent the signal to end.
	asked time.Time
}

// begin is one attempt; first reports whether it is the first. A grace may
// shorten what is left of an earlier one, and never make it longer.
func (s *stops) begin(uid types.UID, id string, grace time.Duration) (_ *stop, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.pods[uid][id]
	if known == nil {
		if s.pods == nil {
			s.pods = map[types.UID]map[string]*stop{}
		}
		if s.pods[uid] == nil {
			s.pods[uid] = map[string]*stop{}
		}
		known, first = &stop{left: grace}, true
		s.pods[uid][id] = known
	}
	now := time.Now()
	if known.due.IsZero() {
		known.due = now.Add(known.left)
	}
	if due := now.Add(grace); due.Before(known.due) {
		known.due = due
	}
	return known, first
}

// end forgets a container that has ended, forget a pod.
func (s *stops) end(uid types.UID, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods[uid], id)
	if len(s.pods[uid]) == 0 {
		delete(s.pods, uid)
	}
}

func (s *stops) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}
