package nameserver

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// Limits of what all clients, and one of them, may keep busy at a time. A query over UDP that waits for another server
// needs a goroutine, a socket and some 20 KB, and so does a connection, which has one query at a time; a query for a
// pod's name needs none.
const (
	maxForwards          = 256
	maxForwardsPerClient = 64
	maxConns             = 128
	maxConnsPerClient    = 16
	// maxLarge limits the responses that other servers send over TCP, of up to 64 KiB.
	maxLarge          = 32
	maxLargePerClient = 8
	// alwaysPerClient is what a client may have however much others have, as long as there is anything left.
	alwaysPerClient = 2
)

// limiter counts what clients have in progress. Half of the total is shared: a client may have as much of it as is
// left, so that n clients which take all they get leave one part of n+1 to the next one. The other half is a reserve,
// of which each client may have alwaysPerClient. It is safe for concurrent use.
type limiter struct {
	mu          sync.Mutex
	total, each int
	current     int
	clients     map[netip.Addr]int
	rejected    *atomic.Uint64
}

func newLimiter(total, each int, rejected *atomic.Uint64) *limiter {
	return &limiter{total: total, each: each, clients: map[netip.Addr]int{}, rejected: rejected}
}

// acquire reports whether a client may have one more; release must follow then.
func (l *limiter) acquire(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	allowed := max(alwaysPerClient, min(l.each, l.total/2-l.current))
	if l.current >= l.total || l.clients[client] >= allowed {
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
}

// counted returns the address to which what a client of a listener keeps busy is counted. Whoever sends from many
// addresses must not count as many clients: those that no pod has are one, and so are all processes of the node at a
// loopback address.
func (n *names) counted(client, listener netip.Addr) netip.Addr {
	if _, ok := n.Zone.Namespaces[client]; ok || slices.Contains(n.Listen, client) {
		return client
	}
	if listener.IsLoopback() {
		return listener
	}
	return netip.Addr{}
}

// progress counts queries that are not answered yet. It is safe for concurrent use.
type progress struct {
	mu      sync.Mutex
	queries int
	// drained is closed when there is none any more; nil if that is not awaited.
	drained chan struct{}
}

func (p *progress) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queries++
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queries--; p.queries == 0 && p.drained != nil {
		close(p.drained)
		p.drained = nil
	}
}

// idle returns a channel that is closed once there is none. The channel of an earlier call may stay open.
func (p *progress) idle() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	drained := make(chan struct{})
	if p.queries == 0 {
		close(drained)
	} else {
		p.drained = drained
	}
	return drained
}

// stats counts what the server did.
type stats struct {
	queries, forwarded, failed, rejected, foreign atomic.Uint64
}
