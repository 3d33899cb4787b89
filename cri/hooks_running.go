package cri

import (
	"context"
	"errors"
	"sync"
)

// errContainerEnded cancels a hook whose container has exited.
var errContainerEnded = errors.New("the container exited before its hook")

// runningHooks are the hooks in progress, by container ID; there is at most one
// for each container. The zero value is ready to use.
type runningHooks struct {
	mu     sync.Mutex
	cancel map[string]context.CancelCauseFunc
}

// CancelEndedHooks cancels the hooks of containers that a status shows as exited.
// It is for a status that was observed while a Sync or a Kill of the pod is in
// progress. (The kubelet waits until such hooks end.)
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

// runHook runs a hook. It returns errContainerEnded if the container was observed
// to exit meanwhile.
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
