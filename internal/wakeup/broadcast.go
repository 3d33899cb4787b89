package wakeup

import "sync"

// Broadcast wakes all its subscribers. The zero value has no subscriber and is ready to use.
// It must not be copied after the first use.
type Broadcast struct {
	mu          sync.Mutex
	subscribers map[Signal]struct{}
}

// Subscribe returns a channel that receives after Notify, with the coalescing of a Signal, and
// a function that ends the subscription and may be called more than once. The channel is never
// closed; a notification that came before the end may remain in it. What changed before the call
// is not notified: a subscriber reads the state after it has subscribed.
func (b *Broadcast) Subscribe() (<-chan struct{}, func()) {
	s := NewSignal()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subscribers == nil {
		b.subscribers = map[Signal]struct{}{}
	}
	b.subscribers[s] = struct{}{}
	return s.C(), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subscribers, s)
	}
}

// Notify wakes all subscribers. It never blocks on one of them, and may be called with the
// owner's locks held and by several goroutines.
func (b *Broadcast) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subscribers {
		s.Notify()
	}
}
