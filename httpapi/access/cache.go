package access

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// maxAnswers bounds what is kept of the answers of one kind.
const maxCacheEntries = 4096

// cache keeps answers for as long as they count. Of many who ask the same at once
// one asks.
type cache[A any] struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]*cacheEntry[A]
}

type cacheEntry[A any] struct {
	// known is closed once there is one, or an error that is not kept.
	done    chan struct{}
	value   A
	err     error
	expires time.Time
}

func newCache[A any]() *cache[A] { return &cache[A]{entries: map[[sha256.Size]byte]*cacheEntry[A]{}} }

// get is the answer that is kept, or that ask gets within reviewTimeout, with how
// long it counts.
func (c *cache[A]) get(ctx context.Context, key [sha256.Size]byte, ask func(context.Context) (A, time.Duration, error)) (A, error) {
	c.mu.Lock()
	a := c.entries[key]
	if a != nil && !a.expired(time.Now()) {
		c.mu.Unlock()
		select {
		case <-a.done:
			return a.value, a.err
		case <-ctx.Done():
			var none A
			return none, ctx.Err()
		}
	}
	a = &cacheEntry[A]{done: make(chan struct{})}
	c.evict(time.Now())
	c.entries[key] = a
	c.mu.Unlock()

	// Others wait for it too: that this caller goes away is nothing to them.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
	defer cancel()
	is, ttl, err := ask(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	a.value, a.err, a.expires = is, err, time.Now().Add(ttl)
	close(a.done)
	if err != nil && c.entries[key] == a {
		delete(c.entries, key)
	}
	return is, err
}

// over tells whether the answer does not count any more. The caller holds mu.
func (a *cacheEntry[A]) expired(now time.Time) bool {
	return !a.expires.IsZero() && !now.Before(a.expires)
}

// room makes room for another answer. The caller holds mu.
func (c *cache[A]) evict(now time.Time) {
	if len(c.entries) < maxCacheEntries {
		return
	}
	for key, a := range c.entries {
		if a.expired(now) {
			delete(c.entries, key)
		}
	}
	for key := range c.entries {
		if len(c.entries) < maxCacheEntries {
			return
		}
		delete(c.entries, key) // any; it can be asked for again
	}
}
