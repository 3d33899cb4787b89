package cri

import (
	"context"
	"sync"
	"time"
)

const (
	// DefaultParallelPulls is how many pulls start at once. The kubelet pulls
	// one at a time.
	DefaultParallelPulls = 5
	// pullTurn is how long a pull keeps others waiting: a big image on a slow
	// line must not hold up the next one for as long as it takes.
	pullTurn = 30 * time.Second
)

// gate lets a few pulls begin at a time, first come first served.
type pullLimiter struct{ slots chan struct{} }

func newPullLimiter(slots int) pullLimiter { return pullLimiter{slots: make(chan struct{}, slots)} }

// enter waits for a slot. leave gives it back, if the turn has not done so.
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
