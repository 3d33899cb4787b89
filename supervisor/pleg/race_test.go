package pleg

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/cri"
)

// A relist that was requested before the last inspection does not affect that
// pod.
func TestStaleListChangesNothing(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		time.Sleep(1500 * time.Millisecond)
		takeAll(p)
		var old *cri.Observed
		f.set(func() { old = f.observedLocked() })
		f.exit("a", "a1")
		time.Sleep(time.Second)
		wantEvents(t, p, "a ContainerDied a1")
		f.set(func() { f.stale = old })
		time.Sleep(3 * time.Second)
		wantEvents(t, p)
		if st, _ := p.Status("a"); st.Containers[0].State != cri.StateExited {
			t.Error("the cache went back to what the stale list showed")
		}
	})
}

// listing waits until a list that takes half a second is in flight and has read
// the state.
func listing(f *fakeRuntime) {
	f.set(func() { f.listTakes = 500 * time.Millisecond })
	time.Sleep(2 * time.Second)
	for n := f.listCount(); f.listCount() == n; {
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
	}
}

// A relist that was requested before the last inspection does not cause another
// one.
func TestListThatEndsAfterANewerInspectionIsIgnored(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		listing(f)
		f.run("a", "a2")
		inspections := f.inspectionsOf("a")
		p.Relist("a")
		time.Sleep(100 * time.Millisecond)
		looked := time.Now()
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if n := f.inspectionsOf("a") - inspections; n != 1 {
			t.Errorf("%d inspections for one change", n)
		}
		// Nor does it revert state that is newer than its request.
		f.set(func() { f.lookErr["a"] = errors.New("no"); f.listErr = errors.New("no") })
		if _, err := p.NewerThan(t.Context(), "a", looked.Add(-100*time.Millisecond)); err != nil {
			t.Error(err)
		}
	})
}

func TestListDoesNotTakeBackWhatAnInspectionConfirmed(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		listing(f)
		since := time.Now()
		p.Relist("a") // nothing changed
		if _, err := p.NewerThan(t.Context(), "a", since); err != nil {
			t.Fatal(err)
		}
		time.Sleep(700 * time.Millisecond) // the list ends
		f.set(func() { f.lookErr["a"] = errors.New("no"); f.listErr = errors.New("no") })
		again := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := p.NewerThan(ctx, "a", since); err != nil || time.Since(again) > 0 {
			t.Errorf("NewerThan = %v after %v: the older list reverted newer state", err, time.Since(again))
		}
	})
}

// An inspection in flight that was requested after the relist serves the relist too.
func TestInspectionInFlightServesAnOlderRelist(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		f.set(func() { f.listTakes = 500 * time.Millisecond })
		time.Sleep(2 * time.Second)
		takeAll(p)
		f.mu.Lock()
		next := f.lists[len(f.lists)-1].Add(1500 * time.Millisecond)
		f.mu.Unlock()
		time.Sleep(time.Until(next) - 10*time.Millisecond)
		f.exit("a", "a1") // shown by the list
		time.Sleep(100 * time.Millisecond)
		gate, inspections := make(chan struct{}), f.inspectionsOf("a")
		f.set(func() { f.inspectGates["a"] = gate })
		p.Relist("a")
		time.Sleep(600 * time.Millisecond) // the list ends while the inspection is in flight
		close(gate)
		time.Sleep(100 * time.Millisecond)
		wantEvents(t, p, "a ContainerDied a1")
		if n := f.inspectionsOf("a") - inspections; n != 1 {
			t.Errorf("%d inspections, want 1", n)
		}
	})
}

// A pod that a relist showed and that is removed before the inspection causes
// an event.
func TestPodThatGoesBeforeAnInspectionSucceeded(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.set(func() { f.lookErr["a"] = errors.New("no") })
		known(f)
		f.remove("a")
		since := time.Now()
		st, err := p.NewerThan(t.Context(), "a", since)
		if err != nil || !gone(st) || time.Since(since) > time.Second {
			t.Errorf("NewerThan = %+v, %v after %v", st, err, time.Since(since))
		}
		wantEvents(t, p, "a PodSync ")
	})
}

// An inspection that was requested before a relist but responded after it must
// not hide the list's changes.
func TestSlowInspectionIsRepeatedIfRelistSawMore(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		time.Sleep(1500 * time.Millisecond)
		takeAll(p)
		gate := make(chan struct{})
		f.set(func() { f.inspectGates["a"] = gate })
		p.Relist("a")
		time.Sleep(10 * time.Millisecond)
		f.exit("a", "a1") // after the inspection has read the state
		time.Sleep(time.Second)
		f.set(func() { delete(f.inspectGates, "a") })
		waiting := make(chan *cri.PodStatus, 1)
		since := time.Now()
		go func() {
			st, _ := p.NewerThan(t.Context(), "a", since)
			waiting <- st
		}()
		close(gate)
		if st := <-waiting; st.Containers[0].State != cri.StateExited || !st.At.After(since) {
			t.Errorf("NewerThan gave the older inspection: %+v", st)
		}
		wantEvents(t, p, "a ContainerDied a1")
	})
}
