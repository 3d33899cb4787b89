package cri

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// terminations tracks the containers that are being terminated across attempts: a
// kill that was abandoned for a shorter grace period, or failed, continues where
// it was. A preStop hook that returned is not run again, one that was interrupted
// is. A restart of the daemon resets all of it. The zero value is ready to use.
type terminations struct {
	mu   sync.Mutex
	pods map[types.UID]map[string]*termination
}

// termination is one container that is being terminated. Only the attempt in
// progress, of which there is one at a time, accesses it.
type termination struct {
	// deadline is when the grace period ends.
	deadline time.Time
	// remaining replaces deadline between an attempt that failed and the next
	// one.
	remaining time.Duration
	// preStopDone: the preStop hook has returned.
	preStopDone bool
	// signaledAt is when it was first sent the stop signal.
	signaledAt time.Time
}

// begin starts an attempt; first reports whether it is the first. A grace period
// can shorten what is left of an earlier one, and never extend it.
func (s *terminations) begin(uid types.UID, id string, grace time.Duration) (_ *termination, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.pods[uid][id]
	if t == nil {
		if s.pods == nil {
			s.pods = map[types.UID]map[string]*termination{}
		}
		if s.pods[uid] == nil {
			s.pods[uid] = map[string]*termination{}
		}
		t, first = &termination{remaining: grace}, true
		s.pods[uid][id] = t
	}
	now := time.Now()
	if t.deadline.IsZero() {
		t.deadline = now.Add(t.remaining)
	}
	if deadline := now.Add(grace); deadline.Before(t.deadline) {
		t.deadline = deadline
	}
	return t, first
}

// end drops a container that was terminated, forget a pod.
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
