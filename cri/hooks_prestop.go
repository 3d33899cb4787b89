package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// preStopHook is the preStop hook of a container that is being terminated.
type preStopHook struct {
	begun  time.Time
	cancel context.CancelFunc
	// result gets the hook's error when the hook has ended.
	result chan error
	// failed records an event about a hook that failed.
	failed func(what string)
	// overdue is the grace period that the hook outlasted, 0 if it did not.
	overdue time.Duration
}

// startPreStop starts a container's hook.
func (s *Syncer) startPreStop(ctx context.Context, k *killContext, c *Container) *preStopHook {
	h := &preStopHook{begun: time.Now(), result: make(chan error, 1)}
	h.failed = func(what string) {
		s.events.Event(k.pod, v1.EventTypeWarning, reasonFailedPreStop,
			fmt.Sprintf("PreStopHook failed: %s (container %s)", what, c.Name))
	}
	ctx, h.cancel = context.WithCancel(ctx)
	hook := Hook{Handler: c.PreStop, ContainerID: c.ID, Name: c.Name, Ports: c.Ports, IP: k.hookIP(c)}
	go func() { h.result <- s.runHook(ctx, hook) }()
	return h
}

// wait waits for the hook until due at most. Only the end of ctx is an error: a hook
// that fails is recorded as an event, and the container is terminated nevertheless.
func (h *preStopHook) wait(ctx context.Context, due time.Time) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case err := <-h.result:
		h.result <- err
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !errors.Is(err, errContainerEnded):
			h.failed(detail(err))
		}
	case <-timer.C:
		h.overdue = time.Since(h.begun)
	}
	return nil
}

// end cancels the hook if it still runs, and returns when it has ended. A hook that
// was overdue and did not succeed in the time after the signal has failed.
func (h *preStopHook) end(ctx context.Context) {
	succeeded := false
	select {
	case err := <-h.result:
		succeeded = err == nil
		h.cancel()
	default:
		h.cancel()
		<-h.result
	}
	if h.overdue > 0 && !succeeded && ctx.Err() == nil {
		h.failed(fmt.Sprintf("it did not finish within the grace period, %s", h.overdue.Round(time.Second)))
	}
}
