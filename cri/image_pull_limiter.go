package cri

import (
	"context"
	"sync"
	"time"
)

const (
	// DefaultParallelPulls is how many pulls start at the same time. The kubelet
	// pulls one at a time.
	DefaultParallelPulls = 5
	// pullTurn is how long a pull keeps others waiting: a big image on a slow
	// line must not block the next one for its whole duration.
	pullTurn = 30 * time.Second
)

// pullLimiter limits how many pulls start at the same time, first come, first
// served.
type pullLimiter struct{ slots chan struct{} }

func newPullLimiter(slots int) pullLimiter { return pullLimiter{slots: make(chan struct{}, slots)} }

// enter waits for a slot. leave releases it, unless pullTurn has released it
// already.
func (g pullLimiter) enter(ctx context.Context) (leave func(), err error) {
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	release := sync.OnceFunc(func() { <-g.slots })
	turn := time.AfterFunc(pullTurn, release)
	return func() {
		turn.Stop()
		release()
	}, nil
}
