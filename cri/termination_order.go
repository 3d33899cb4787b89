package cri

import (
	"context"
	"errors"
	"sync"
	"time"
)

// terminationOrder is the order in which the containers of a pod are terminated,
// as with the kubelet: first all that are not sidecars, in parallel, then the
// sidecars, the last of spec.initContainers first. No container waits longer than
// the grace period.
type terminationOrder struct {
	// ended is closed when a container has ended, by its ID.
	ended map[string]chan struct{}
	// waitsFor has what a sidecar waits for, by its ID.
	waitsFor map[string][]chan struct{}
	// failed is closed when a container could not be terminated.
	failed chan struct{}
	once   sync.Once
}

// errPredecessorRunning keeps a sidecar running next to a container that it
// serves and that could not be stopped. (The kubelet stops the sidecar.)
var errPredecessorRunning = errors.New("a container that terminates first could not be stopped")

// newTerminationOrder computes the order of the containers that run.
func newTerminationOrder(pod *Pod) *terminationOrder {
	o := &terminationOrder{ended: map[string]chan struct{}{}, waitsFor: map[string][]chan struct{}{},
		failed: make(chan struct{})}
	var running []*Container
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.State == StateRunning || c.State == StateUnknown {
			running = append(running, c)
			o.ended[c.ID] = make(chan struct{})
		}
	}
	for _, sidecar := range running {
		if sidecar.Sidecar == 0 {
			continue
		}
		for _, c := range running {
			if c.Sidecar == 0 || c.Sidecar > sidecar.Sidecar {
				o.waitsFor[sidecar.ID] = append(o.waitsFor[sidecar.ID], o.ended[c.ID])
			}
		}
	}
	return o
}

// wait waits until it is a container's turn or the deadline has passed. It
// returns an error if ctx ended, or if the turn cannot come.
func (o *terminationOrder) wait(ctx context.Context, c *Container, due time.Time) error {
	if o == nil || len(o.waitsFor[c.ID]) == 0 {
		return nil
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for _, done := range o.waitsFor[c.ID] {
		select {
		case <-done:
		case <-timer.C:
			return nil
		case <-o.failed:
			return errPredecessorRunning
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// finished records the result of a container's termination. A container that was
// signaled and may take longer does not block others. It is called once for each
// container.
func (o *terminationOrder) finished(id string, err error) {
	switch {
	case o == nil || o.ended[id] == nil:
	case err == nil || errors.Is(err, ErrTimeout):
		close(o.ended[id])
	default:
		o.once.Do(func() { close(o.failed) })
	}
}
