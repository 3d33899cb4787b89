package spdy

import (
	"sync"

	"github.com/podstead/podstead/internal/wakeup"
)

// The bytes that a connection keeps because they were not read yet.
const (
	// maxHeld is the maximum of a connection.
	maxHeld = 1 << 20
	// guaranteed is how much data a connection may keep even if the budget is used up, so
	// that connections that are not read never stop others. Streams are not part of it.
	guaranteed = 32 << 10
	// maxChunk is the maximum that is read at once.
	maxChunk = 16 << 10
	// chunkCost is what a chunk costs in addition to its bytes, streamCost what a stream
	// costs in addition to its headers.
	chunkCost  = 64
	streamCost = 256
)

// Budget limits the data that several connections keep together. Each of them may keep 32 KiB
// in addition, and its streams. A nil Budget has no limit.
type Budget struct {
	mu   sync.Mutex
	left int
	// waiting are notified when bytes are returned.
	waiting map[wakeup.Signal]struct{}
}

// NewBudget returns a budget of some bytes.
func NewBudget(bytes int) *Budget {
	return &Budget{left: bytes, waiting: map[wakeup.Signal]struct{}{}}
}

// reserve takes bytes, or notifies the channel when there may be enough.
func (b *Budget) reserve(n int, notify wakeup.Signal) bool {
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

// release returns bytes.
func (b *Budget) release(n int) {
	if b == nil || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	for notify := range b.waiting {
		notify.Notify()
	}
	clear(b.waiting)
}

// account is what one connection keeps.
type account struct {
	budget *Budget
	// unread is the cost of data that was not read, streams that of the open streams.
	unread, streams int
	// changed is notified when bytes were returned: those of the connection, or of the
	// budget after it had not enough.
	changed wakeup.Signal
}

// reserveData takes bytes of data. A connection that keeps no data always gets a chunk, however many
// streams it has.
func (a *account) reserveData(n int) bool {
	if a.unread > 0 && a.unread+a.streams+n > maxHeld ||
		!a.budget.reserve(shared(a.unread+n)-shared(a.unread), a.changed) {
		return false
	}
	a.unread += n
	return true
}

// releaseData returns bytes of data.
func (a *account) releaseData(n int) {
	a.budget.release(shared(a.unread) - shared(a.unread-n))
	a.unread -= n
	a.changed.Notify()
}

// reserveStream takes the cost of a stream. Only the connection's own maximum limits it.
func (a *account) reserveStream(n int) bool {
	if a.unread+a.streams+n > maxHeld {
		return false
	}
	a.streams += n
	return true
}

// releaseStream returns the cost of a stream.
func (a *account) releaseStream(n int) {
	a.streams -= n
	a.changed.Notify()
}

// close returns everything to the budget. What is taken later does not count.
func (a *account) close() {
	a.budget.release(shared(a.unread))
	a.budget = nil
	a.changed.Notify()
}

// shared returns the part of the data of a connection that the budget has to have.
func shared(data int) int { return max(0, data-guaranteed) }
