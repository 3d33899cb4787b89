package pleg

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// known adds a pod to the PLEG and lets it settle between two lists.
func known(f *fakeRuntime) {
	f.run("a", "a1")
	time.Sleep(1500 * time.Millisecond)
	synctest.Wait()
}

func TestNewerThanWhatIsThere(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		inspections := f.inspectionsOf("a")
		st, err := p.NewerThan(t.Context(), "a", time.Now().Add(-time.Second))
		if err != nil || len(st.Containers) != 1 || f.inspectionsOf("a") != inspections {
			t.Errorf("got %+v, %v, want the cached status without an inspection", st, err)
		}
	})
}

func TestNewerThanOfUnknownPodAndNewerList(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		st, err := p.NewerThan(t.Context(), "unknown", time.Now().Add(-time.Second))
		if err != nil || !gone(st) || st.UID != "unknown" || f.inspectionsOf("unknown") != 0 {
			t.Errorf("got %+v, %v, want an empty status without an inspection", st, err)
		}
	})
}

func TestNewerThanEndsWithItsContext(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		f.set(func() { f.lookErr["a"] = errors.New("no"); f.listErr = errors.New("no") })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := p.NewerThan(ctx, "a", time.Now()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want the context's", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.cache.waiters) != 0 {
			t.Error("the waiter was not removed")
		}
	})
}

func TestNewerThanTakesAListWithoutDifference(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		f.set(func() { f.lookErr["a"] = errors.New("no") })
		since := time.Now()
		st, err := p.NewerThan(t.Context(), "a", since)
		if err != nil || len(st.Containers) != 1 || time.Since(since) > time.Second {
			t.Errorf("got %+v, %v after %v", st, err, time.Since(since))
		}
		time.Sleep(5 * time.Millisecond)
		inspections := f.inspectionsOf("a")
		time.Sleep(time.Minute)
		if n := f.inspectionsOf("a") - inspections; n != 0 {
			t.Errorf("%d inspections after the list was complete", n)
		}
	})
}

// A pod that a relist showed but no inspection has confirmed is not known.
func TestNewerThanWaitsForInspectionThatRelistRequested(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		f.set(func() { f.lookErr["a"] = errors.New("no"); f.lookErr["b"] = errors.New("no") })
		f.exit("a", "a1")
		f.run("b", "b1")
		for _, uid := range []types.UID{"a", "b"} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			if st, err := p.NewerThan(ctx, uid, time.Now()); err == nil {
				t.Errorf("NewerThan(%s) = %+v, want it to wait", uid, st)
			}
			cancel()
		}
	})
}

func TestNewerThanServesManyWaiters(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		time.Sleep(1500 * time.Millisecond)
		f.run("a", "a1")
		since := time.Now()
		done := make(chan error, 20)
		for range cap(done) {
			go func() {
				st, err := p.NewerThan(t.Context(), "a", since)
				if err == nil && len(st.Containers) != 1 {
					err = fmt.Errorf("status %+v", st)
				}
				done <- err
			}()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := f.inspectionsOf("a"); n != 1 {
			t.Errorf("%d inspections for %d waiters, want 1", n, cap(done))
		}
	})
}
