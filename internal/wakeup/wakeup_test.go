package wakeup

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pending returns whether the channel has a notification, and takes it.
func pending(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestSignalKeepsOneNotification(t *testing.T) {
	s := NewSignal()
	if pending(s.C()) {
		t.Fatal("a new Signal has a notification")
	}
	s.Notify()
	s.Notify()
	if !pending(s.C()) {
		t.Fatal("a notification without a receiver was lost")
	}
	if pending(s.C()) {
		t.Fatal("two notifications did not become one")
	}
}

func TestSignalCopiesAreTheSame(t *testing.T) {
	s := NewSignal()
	c := s
	c.Notify()
	if !pending(s.C()) {
		t.Fatal("the copy of a Signal does not wake its receiver")
	}
}

func TestSignalWakesABlockedReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, woken := NewSignal(), false
		go func() {
			<-s.C()
			woken = true
		}()
		synctest.Wait()
		if woken {
			t.Fatal("the receiver returned without a notification")
		}
		time.Sleep(time.Hour) // of the bubble: the receiver blocks in it durably
		s.Notify()
		synctest.Wait()
		if !woken {
			t.Fatal("the receiver is still blocked")
		}
	})
}

// A receiver that reads the state after each wake-up sees the last change, however the sends
// and the receives are interleaved.
func TestNoChangeIsMissed(t *testing.T) {
	const changes = 1000
	var mu sync.Mutex
	state, s := 0, NewSignal()
	go func() {
		for range changes {
			mu.Lock()
			state++
			mu.Unlock()
			s.Notify()
		}
	}()
	for seen := 0; seen < changes; {
		<-s.C()
		mu.Lock()
		seen = state
		mu.Unlock()
	}
}

func TestZeroSignalIsNotSilent(t *testing.T) {
	var s Signal
	if s.C() != nil {
		t.Error("the zero Signal has a channel")
	}
	defer func() {
		if recover() == nil {
			t.Error("the notification of a zero Signal was lost in silence")
		}
	}()
	s.Notify()
}

func TestBroadcastWakesEachSubscriber(t *testing.T) {
	var b Broadcast
	b.Notify()
	first, endFirst := b.Subscribe()
	second, endSecond := b.Subscribe()
	defer endSecond()
	if pending(first) || pending(second) {
		t.Fatal("a subscriber was notified of a change before its subscription")
	}
	b.Notify()
	b.Notify()
	if !pending(first) || !pending(second) {
		t.Fatal("a subscriber was not notified")
	}
	if pending(first) || pending(second) {
		t.Fatal("two notifications did not become one")
	}
	endFirst()
	endFirst()
	b.Notify()
	if pending(first) {
		t.Fatal("a subscriber was notified after the end of its subscription")
	}
	if !pending(second) {
		t.Fatal("the end of one subscription ended another")
	}
	if len(b.subscribers) != 1 {
		t.Fatalf("%d subscribers are kept, want 1", len(b.subscribers))
	}
}

// A Broadcast of the zero value that is made outside a bubble has no channel of its own, so
// that a subscriber inside waits for a channel of its bubble.
func TestBroadcastBlocksDurablyInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Broadcast
		c, end := b.Subscribe()
		defer end()
		start := time.Now()
		time.AfterFunc(time.Hour, b.Notify)
		<-c
		if waited := time.Since(start); waited != time.Hour {
			t.Fatalf("woken after %v, want 1h", waited)
		}
	})
}

func TestBroadcastFromSeveralGoroutines(t *testing.T) {
	var b Broadcast
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				_, end := b.Subscribe()
				b.Notify()
				end()
			}
		})
	}
	wg.Wait()
	if len(b.subscribers) != 0 {
		t.Fatalf("%d subscribers are left", len(b.subscribers))
	}
}
