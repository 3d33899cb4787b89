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
type terminations struct {
	mu   sync.Mutex
	pods map[types.UID]map[string]*termination
}

// stop is one container that is being ended. Only the attempt under way, of
// which there is one at a time, touches it.
type termination struct {
	// due is when its grace period is over.
	deadline time.Time
	// left replaces due between an attempt that came to nothing and the next.
	remaining time.Duration
	// hooked: its preStop hook has returned.
	preStopDone bool
	// asked is when it was first sent the signal to end.
	signaledAt time.Time
}

// begin is one attempt; first reports whether it is the first. A grace may
// shorten what is left of an earlier one, and never make it longer.
func (s *terminations) begin(uid types.UID, id string, grace time.Duration) (_ *termination, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.pods[uid][id]
	if known == nil {
		if s.pods == nil {
			s.pods = map[types.UID]map[string]*termination{}
		}
		if s.pods[uid] == nil {
			s.pods[uid] = map[string]*termination{}
		}
		known, first = &termination{remaining: grace}, true
		s.pods[uid][id] = known
	}
	now := time.Now()
	if known.deadline.IsZero() {
		known.deadline = now.Add(known.remaining)
	}
	if due := now.Add(grace); due.Before(known.deadline) {
		known.deadline = due
	}
	return known, first
}

// end forgets a container that has ended, forget a pod.
func (s *terminations) end(uid types.UID, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods[uid], id)
	if len(s.pods[uid]) == 0 {
		delete(s.pods, uid)
	}
}

func (s *terminations) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}
