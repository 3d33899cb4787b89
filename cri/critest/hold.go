package critest

import (
	"context"
	"sync"

	"google.golang.org/grpc/status"
)

// Hold blocks calls until it is released.
type Hold struct {
	once    sync.Once
	release chan struct{}

	reachedOnce sync.Once
	reached     chan struct{}
}

func newHold() *Hold {
	return &Hold{release: make(chan struct{}), reached: make(chan struct{})}
}

// Release releases all calls, now and later.
func (h *Hold) Release() { h.once.Do(func() { close(h.release) }) }

// Reached is closed when the first call blocks.
func (h *Hold) Reached() <-chan struct{} { return h.reached }

// wait waits for the release or the end of the caller. A nil Hold does not block.
func (h *Hold) wait(ctx context.Context) error {
	if h == nil {
		return nil
	}
	h.reachedOnce.Do(func() { close(h.reached) })
	select {
	case <-h.release:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// waitIgnoringContext waits for the release even if the caller is gone.
func (h *Hold) waitIgnoringContext() {
	h.reachedOnce.Do(func() { close(h.reached) })
	<-h.release
}
