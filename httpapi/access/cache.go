package access

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// maxCacheEntries is the maximum number of cached results of one kind.
const maxCacheEntries = 4096

// cache keeps results until they expire. Of concurrent requests with the same key only one
// loads the result.
type cache[V any] struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]*cacheEntry[V]
}

type cacheEntry[V any] struct {
	// done is closed when the result is set. An error is not kept.
	done    chan struct{}
	value   V
	err     error
	expires time.Time
}

func newCache[V any]() *cache[V] { return &cache[V]{entries: map[[sha256.Size]byte]*cacheEntry[V]{}} }

// get returns the cached result, or the one that load returns within reviewTimeout together
// with its time to live.
func (c *cache[V]) get(ctx context.Context, key [sha256.Size]byte,
	load func(context.Context) (V, time.Duration, error)) (V, error) {
	c.mu.Lock()
	e := c.entries[key]
	if e != nil && !e.expired(time.Now()) {
		c.mu.Unlock()
		select {
		case <-e.done:
			return e.value, e.err
		case <-ctx.Done():
			var zero V
			return zero, ctx.Err()
		}
	}
	e = &cacheEntry[V]{done: make(chan struct{})}
	c.evict(time.Now())
	c.entries[key] = e
	c.mu.Unlock()

	// Other callers may wait for the result too, so that it does not depend on the context
	// of this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
	defer cancel()
	value, ttl, err := load(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.value, e.err, e.expires = value, err, time.Now().Add(ttl)
	close(e.done)
	if err != nil && c.entries[key] == e {
		delete(c.entries, key)
	}
	return value, err
}

// expired reports whether the result has expired. The caller holds mu.
func (e *cacheEntry[V]) expired(now time.Time) bool {
	return !e.expires.IsZero() && !now.Before(e.expires)
}

// evict makes space for another entry. The caller holds mu.
func (c *cache[V]) evict(now time.Time) {
	if len(c.entries) < maxCacheEntries {
		return
	}
	for key, e := range c.entries {
		if e.expired(now) {
			delete(c.entries, key)
		}
	}
	for key := range c.entries {
		if len(c.entries) < maxCacheEntries {
			return
		}
		delete(c.entries, key) // any entry: it can be loaded again
	}
}
