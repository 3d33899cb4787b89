package wakeup

// Signal wakes one receiver. It holds at most one notification: one that is sent before the
// receiver takes it is kept, more than one become one. So a receiver that reads the state
// after each wake-up sees every change, if the sender notifies after it has changed the state.
//
// A Signal is a reference, like a channel: copies are the same Signal. Several receivers share
// the notifications, each of which wakes one of them; Broadcast wakes all.
//
// The zero value has no channel: C returns nil, which is never ready, and Notify panics,
// because the notification would be lost. The channel is made by NewSignal and not by the
// first use, so that it belongs to the testing/synctest bubble of its owner.
type Signal struct {
	c chan struct{}
}

// NewSignal returns a Signal without a notification.
func NewSignal() Signal { return Signal{c: make(chan struct{}, 1)} }

// Notify wakes the receiver, or lets its next receive return at once. It never blocks, and may
// be called with locks held and by several goroutines.
func (s Signal) Notify() {
	if s.c == nil {
		panic("wakeup: Notify of a Signal that NewSignal did not make")
	}
	select {
	case s.c <- struct{}{}:
	default:
	}
}

// C returns the channel to receive from. It is never closed.
func (s Signal) C() <-chan struct{} { return s.c }
