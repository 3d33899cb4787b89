package access

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// maxAnswers bounds what is kept of the answers of one kind.
const maxAnswers = 4096

// cache keeps answers for as long as they count. Of many who ask the same at once
// one asks.
type cache[A any] struct {
	mu      sync.Mutex
	answers map[[sha256.Size]byte]*answer[A]
}

type answer[A any] struct {
	// known is closed once there is one, or an error that is not kept.
	known chan struct{}
	is    A
	err   error
	until time.Time
}

func newCache[A any]() *cache[A] { return &cache[A]{answers: map[[sha256.Size]byte]*answer[A]{}} }

// get is the answer that is kept, or that ask gets within reviewTimeout, with how
// long it counts.
func (c *cache[A]) get(ctx context.Context, key [sha256.Size]byte, ask func(context.Context) (A, time.Duration, error)) (A, error) {
	c.mu.Lock()
	a := c.answers[key]
	if a != nil && !a.over(time.Now()) {
		c.mu.Unlock()
		select {
		case <-a.known:
			return a.is, a.err
		case <-ctx.Done():
			var none A
			return none, ctx.Err()
		}
	}
	a = &answer[A]{known: make(chan struct{})}
	c.room(time.Now())
	c.answers[key] = a
	c.mu.Unlock()

	// Others wait for it too: that this caller goes away is nothing to them.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
	defer cancel()
	is, ttl, err := ask(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	a.is, a.err, a.until = is, err, time.Now().Add(ttl)
	close(a.known)
	if err != nil && c.answers[key] == a {
		delete(c.answers, key)
	}
	return is, err
}

// over tells whether the answer does not count any more. The caller holds mu.
func (a *answer[A]) over(now time.Time) bool { return !a.until.IsZero() && !now.Before(a.until) }

// room makes room for another answer. The caller holds mu.
func (c *cache[A]) room(now time.Time) {
	if len(c.answers) < maxAnswers {
		return
	}
	for key, a := range c.answers {
		if a.over(now) {
			delete(c.answers, key)
		}
	}
	for key := range c.answers {
		if len(c.answers) < maxAnswers {
			return
		}
		delete(c.answers, key) // any; it can be asked for again
	}
}
