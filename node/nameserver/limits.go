package nameserver

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// Limits of what all clients, and one of them, may keep busy at a time. A query that waits for
// another server needs a goroutine, a socket and some 20 KB; one for a pod's name needs none.
const (
	maxForwards          = 256
	maxForwardsPerClient = 64
	maxConns             = 128
	maxConnsPerClient    = 16
)

// limiter counts what clients have in progress. It is safe for concurrent use.
type limiter struct {
	mu          sync.Mutex
	total, each int
	current     int
	clients     map[netip.Addr]int
	// drained is closed when nothing is in progress any more; nil if that is not awaited.
	drained  chan struct{}
	rejected *atomic.Uint64
}

func newLimiter(total, each int, rejected *atomic.Uint64) *limiter {
	return &limiter{total: total, each: each, clients: map[netip.Addr]int{}, rejected: rejected}
}

// acquire reports whether a client may have one more; release must follow then.
func (l *limiter) acquire(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current >= l.total || l.clients[client] >= l.each {
		l.rejected.Add(1)
		return false
	}
	l.current++
	l.clients[client]++
	return true
}

func (l *limiter) release(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current--
	if l.clients[client]--; l.clients[client] == 0 {
		delete(l.clients, client)
	}
	if l.current == 0 && l.drained != nil {
		close(l.drained)
		l.drained = nil
	}
}

// idle returns a channel that is closed once nothing is in progress. The channel of an earlier call may stay open.
func (l *limiter) idle() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	drained := make(chan struct{})
	if l.current == 0 {
		close(drained)
	} else {
		l.drained = drained
	}
	return drained
}

// stats counts what the server did.
type stats struct {
	queries, forwarded, failed, rejected, foreign atomic.Uint64
}
