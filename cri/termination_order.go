package cri

import (
	"context"
	"errors"
	"sync"
	"time"
)

// terminationOrder is the order in which the containers of a pod end, as with the
// kubelet: all that are no sidecars at once, then the sidecars, the last of
// spec.initContainers first. Nobody waits longer than the grace period lasts.
type terminationOrder struct {
	// done is closed when a container has ended, by its ID.
	ended map[string]chan struct{}
	// before are those for which a sidecar waits, by its ID.
	waitsFor map[string][]chan struct{}
	// failed is closed when one could not be ended.
	failed chan struct{}
	once   sync.Once
}

// errPredecessorRunning keeps a sidecar running beside a container that it serves and that
// could not be asked to end. (The kubelet ends it.)
var errPredecessorRunning = errors.New("a container that terminates first could not be stopped")

// newTerminationOrder makes the order of those that run.
func newTerminationOrder(pod *Pod) *terminationOrder {
	o := &terminationOrder{ended: map[string]chan struct{}{}, waitsFor: map[string][]chan struct{}{}, failed: make(chan struct{})}
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

// wait waits until a container's turn has come or the time is over. It is an
// error if ctx ended, or if the turn cannot come.
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

// over tells what came of a container's end. One that may take its time, but
// was asked, holds nobody up. It is called once for each.
func (o *terminationOrder) finished(id string, err error) {
	switch {
	case o == nil || o.ended[id] == nil:
	case err == nil || errors.Is(err, ErrTimeout):
		close(o.ended[id])
	default:
		o.once.Do(func() { close(o.failed) })
	}
}
