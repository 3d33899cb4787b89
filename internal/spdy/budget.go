package spdy

import "sync"

// The bytes that a connection keeps because they were not read yet.
const (
	// maxHeld is the maximum of a connection.
	maxHeld = 1 << 20
	// guaranteed is what a connection may keep even if the budget is used up, so that
	// connections that are not read never stop others.
	guaranteed = 32 << 10
	// maxChunk is the maximum that is read at once.
	maxChunk = 16 << 10
	// chunkCost is what a chunk costs in addition to its bytes, streamCost what a stream
	// costs in addition to its headers.
	chunkCost  = 64
	streamCost = 256
)

// Budget limits the bytes that several connections keep together. Each of them may keep 32 KiB
// in addition. A nil Budget has no limit.
type Budget struct {
	mu   sync.Mutex
	left int
	// waiting are notified when bytes are returned.
	waiting map[chan<- struct{}]struct{}
}

// NewBudget returns a budget of some bytes.
func NewBudget(bytes int) *Budget {
	return &Budget{left: bytes, waiting: map[chan<- struct{}]struct{}{}}
}

// take takes bytes, or notifies the channel when there may be enough.
func (b *Budget) take(n int, notify chan<- struct{}) bool {
	if b == nil || n == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < n {
		b.waiting[notify] = struct{}{}
		return false
	}
	b.left -= n
	return true
}

// put returns bytes.
func (b *Budget) put(n int) {
	if b == nil || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	for notify := range b.waiting {
		wake(notify)
	}
	clear(b.waiting)
}

func wake(notify chan<- struct{}) {
	select {
	case notify <- struct{}{}:
	default:
	}
}

// account is what one connection keeps.
type account struct {
	budget *Budget
	held   int
	// changed is notified when bytes were returned: those of the connection, or of the
	// budget after it had not enough.
	changed chan struct{}
}

// take takes bytes. A connection that keeps nothing always gets up to guaranteed.
func (a *account) take(n int) bool {
	if a.held+n > maxHeld || !a.budget.take(shared(a.held+n)-shared(a.held), a.changed) {
		return false
	}
	a.held += n
	return true
}

// put returns bytes.
func (a *account) put(n int) {
	a.budget.put(shared(a.held) - shared(a.held-n))
	a.held -= n
	wake(a.changed)
}

// close returns everything to the budget. What is taken later does not count.
func (a *account) close() {
	a.budget.put(shared(a.held))
	a.budget = nil
	wake(a.changed)
}

// shared returns the part of the bytes of a connection that the budget has to have.
func shared(held int) int { return max(0, held-guaranteed) }
