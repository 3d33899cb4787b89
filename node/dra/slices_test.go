package dra

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeSlices records the drivers whose slices are kept at each deletion.
type fakeSlices struct {
	mu    sync.Mutex
	fault error
	calls []sliceCall
}

type sliceCall struct {
	at     time.Duration
	except []string
}

func (f *fakeSlices) DeleteResourceSlices(_ context.Context, except []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, sliceCall{time.Duration(time.Now().Unix()) * time.Second, except})
	return f.fault
}

func (f *fakeSlices) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// The slices of a driver that leaves or loses its connection are deleted when it has not returned in time; those of
// the others, and of one that is just leaving, stay. After the start of the daemon drivers have that time as well.
func TestDeleteSlices(t *testing.T) {
	for name, deregistered := range map[string]bool{"deregistered": true, "disconnected": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testDeleteSlices(t, deregistered) })
		})
	}
}

func testDeleteSlices(t *testing.T, deregistered bool) {
	f := &fakeSlices{}
	m := New(Options{Slices: f})
	begin := time.Duration(time.Now().Unix()) * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.DeleteSlices(ctx) }()
	known := map[string]*driver{}
	set := func(name string, connected bool) {
		t.Helper()
		switch d := known[name]; {
		case d == nil:
			known[name] = &driver{name: name}
			m.add(known[name])
		case deregistered:
			m.remove(d)
			delete(known, name)
			return
		}
		m.setConnected(known[name], connected)
	}
	step := func(after time.Duration, want ...sliceCall) {
		t.Helper()
		f.set(func() { f.calls = nil })
		time.Sleep(after)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := range want {
			want[i].at += begin
		}
		if !reflect.DeepEqual(f.calls, want) {
			t.Errorf("deleted %v, want %v", f.calls, want)
		}
	}
	set("a", true)
	step(29 * time.Second)
	step(time.Second, sliceCall{30 * time.Second, []string{"a"}})
	step(time.Hour) // nothing to do
	begin += time.Hour

	set("b", true)
	set("a", false) // at 30 s
	step(20 * time.Second)
	set("b", false) // at 50 s
	step(10*time.Second, sliceCall{60 * time.Second, []string{"b"}})
	set("b", true) // it returns at 60 s
	step(time.Hour)
	begin += time.Hour

	f.set(func() { f.fault = errors.New("away") })
	set("b", false) // at 60 s
	step(34*time.Second, sliceCall{90 * time.Second, nil}, sliceCall{91 * time.Second, nil},
		sliceCall{93 * time.Second, nil})
	f.set(func() { f.fault = nil })
	step(time.Hour, sliceCall{97 * time.Second, nil})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("DeleteSlices = %v", err)
	}
}

// Without a cluster nothing is recorded, and why no driver can register is in the error of a pod.
func TestDisabled(t *testing.T) {
	f := startDriver(t)
	m := newManager(t, t.TempDir(), fakeClaims{"shop/own": allocated("own", "u1")}, nil)
	m.Disable(errors.New("a kubelet serves the socket"))
	mustFail(t, m.Prepare(t.Context(), podWith("u1", "own")),
		"is not registered on this node; drivers cannot register: a kubelet serves the socket")
	register(t, m, f)()
	if len(m.absent) > 0 {
		t.Errorf("recorded %v", m.absent)
	}
}
