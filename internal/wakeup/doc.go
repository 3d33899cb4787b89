// Package wakeup hands "something changed" from one goroutine to another: Signal to one
// receiver, Broadcast to each of several subscribers.
//
// It owns the only channels of this kind. It reads nothing, and never carries data: a receiver
// reads the state itself after it was woken, so that several notifications may become one, and
// a wake-up without a change is harmless. Slots that goroutines occupy (semaphores) are not
// wake-ups and stay channels of their owners.
package wakeup
