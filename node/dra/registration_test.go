package dra

import (
	"path/filepath"
	"testing"
	"time"
)

// A driver that dies and leaves its socket loses its slices. It counts again as soon as it is back, which wakes the
// pods that wait for it. Of two registrations one with a connection is called.
func TestDriverDies(t *testing.T) {
	deleted := &fakeSlices{}
	m := New(Options{Checkpoint: filepath.Join(t.TempDir(), "claims.json"), Slices: deleted, SliceDelay: time.Millisecond,
		Claims: fakeClaims{"shop/x": allocated("x", "p"), "shop/y": allocated("y", "q")}})
	old, f := startDriver(t), startDriver(t)
	deregister := []func(){register(t, m, old), register(t, m, f)}
	connected := func(want int) {
		t.Helper()
		await(t, func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			n := 0
			for _, d := range m.drivers[driverName] {
				if d.connected {
					n++
				}
			}
			return n == want
		})
	}
	connected(2)
	f.kill()
	connected(1)
	mustPrepare(t, m, podWith("p", "x"))
	if calls := old.drain(); calls != "prepare" {
		t.Errorf("calls of the driver that is left: %s", calls)
	}
	old.kill()
	connected(0)
	go func() { _ = m.DeleteSlices(t.Context()) }()
	await(t, func() bool {
		deleted.mu.Lock()
		defer deleted.mu.Unlock()
		return len(deleted.calls) > 0 && deleted.calls[len(deleted.calls)-1].except == nil
	})
	for len(m.Changed()) > 0 {
		<-m.Changed()
	}
	f.serve(t)
	for m.Prepare(t.Context(), podWith("q", "y")) != nil {
		<-m.Changed()
	}
	connected(1)
	for _, f := range deregister {
		f()
	}
	if len(m.drivers) > 0 {
		t.Errorf("left: %v", m.drivers)
	}
}

// await waits until a condition holds, of which nothing is notified.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("does not come true")
		}
	}
}
