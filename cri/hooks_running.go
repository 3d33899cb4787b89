package cri

import (
	"context"
	"errors"
	"sync"
)

// errContainerEnded is why a hook is broken off whose container is no more.
var errContainerEnded = errors.New("the container exited before its hook")

// runningHooks are the hooks that are being performed, by container ID; there
// is one at a time for each. The zero value is ready for use.
type runningHooks struct {
	mu     sync.Mutex
	cancel map[string]context.CancelCauseFunc
}

// Seen takes a look at a pod while a Sync or a Kill of it is under way: hooks of
// containers that have ended are broken off, since nobody is there any more for
// whom they could do anything. (The kubelet waits for their end.)
func (s *Syncer) CancelEndedHooks(status *PodStatus) {
	s.running.mu.Lock()
	defer s.running.mu.Unlock()
	for i := range status.Containers {
		c := &status.Containers[i]
		if cancel := s.running.cancel[c.ID]; cancel != nil && c.State == StateExited {
			cancel(errContainerEnded)
		}
	}
}

// perform performs a hook. It is errContainerEnded if the container was seen to
// end meanwhile.
func (s *Syncer) runHook(ctx context.Context, h Hook) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.running.set(h.ContainerID, cancel)
	defer s.running.set(h.ContainerID, nil)
	err := s.hooks.Run(ctx, h)
	if err != nil && context.Cause(ctx) == errContainerEnded {
		return errContainerEnded
	}
	return err
}

func (r *runningHooks) set(id string, cancel context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel == nil {
		delete(r.cancel, id)
		return
	}
	if r.cancel == nil {
		r.cancel = map[string]context.CancelCauseFunc{}
	}
	r.cancel[id] = cancel
}
