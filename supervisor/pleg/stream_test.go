package pleg

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/cri"
)

// evented waits until the stream is trusted, just after a full list.
func evented(t *testing.T, p *PLEG) {
	t.Helper()
	time.Sleep(5 * time.Second)
	synctest.Wait()
	if !p.Stats().Evented {
		t.Fatal("the stream is open but not trusted")
	}
	takeAll(p)
	select {
	case <-p.Changed():
	default:
	}
}

func TestTrustedStreamMakesListsRare(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		evented(t, p)
		if n := f.listsWithin(10 * time.Minute); n != 10 {
			t.Errorf("%d full lists in ten minutes, want one a minute", n)
		}
		if err := p.Healthy(); err != nil {
			t.Error(err)
		}
	})
}

func TestEventCausesOneInspection(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		evented(t, p)
		inspections := f.inspectionsOf("a")
		f.exit("a", "a1")
		for range 2 { // doubled
			f.stream <- cri.Event{Kind: cri.EventStopped, UID: "a", ContainerID: "a1"}
		}
		time.Sleep(50 * time.Millisecond)
		wantEvents(t, p, "a ContainerDied a1")
		// A later duplicate is ignored.
		f.stream <- cri.Event{Kind: cri.EventStopped, UID: "a", ContainerID: "a1"}
		time.Sleep(10 * time.Second)
		wantEvents(t, p)
		if n := f.inspectionsOf("a") - inspections; n != 1 {
			t.Errorf("%d inspections, want 1", n)
		}
		if n := f.listsWithin(3 * time.Minute); n != 3 {
			t.Errorf("%d full lists in 3 min, want 3: nothing was missed", n)
		}
	})
}

func TestEventsOfAStartAreCombined(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		evented(t, p)
		f.run("a", "a1")
		for _, id := range []string{"sandbox-a", "a1"} {
			f.stream <- cri.Event{Kind: cri.EventCreated, UID: "a", ContainerID: id}
			f.stream <- cri.Event{Kind: cri.EventStarted, UID: "a", ContainerID: id}
		}
		time.Sleep(time.Second)
		wantEvents(t, p, "a ContainerStarted a1", "a PodSync ")
		if n := f.inspectionsOf("a"); n != 1 {
			t.Errorf("%d inspections, want 1", n)
		}
	})
}

func TestOwnInspectionServesEvents(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		evented(t, p)
		f.run("a", "a1")
		f.stream <- cri.Event{Kind: cri.EventStarted, UID: "a", ContainerID: "sandbox-a"}
		f.stream <- cri.Event{Kind: cri.EventStarted, UID: "a", ContainerID: "a1"}
		p.Relist("a")
		time.Sleep(time.Second)
		wantEvents(t, p, "a ContainerStarted a1", "a PodSync ")
		if n := f.inspectionsOf("a"); n != 1 {
			t.Errorf("%d inspections, want the worker's own only", n)
		}
	})
}

func TestLostEventIsFoundAndEndsTheTrust(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		evented(t, p)
		f.exit("a", "a1") // and no event
		lost := time.Now()
		<-p.Changed()
		if d := time.Since(lost); d > EventedPeriod {
			t.Errorf("found after %v, want at the next full list", d)
		}
		wantEvents(t, p, "a ContainerDied a1")
		time.Sleep(2 * time.Second)
		if n := f.listsWithin(9 * time.Minute); n < 500 {
			t.Errorf("%d full lists in the nine minutes after, want one a second", n)
		}
		if p.Stats().Evented {
			t.Error("reported as evented while the stream is not trusted")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := f.listsWithin(10 * time.Minute); n != 10 {
			t.Errorf("%d full lists in ten minutes, want trust again after ten minutes", n)
		}
	})
}

// A list can overtake an event in flight. That is not a lost event.
func TestLateEventKeepsTheTrust(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		evented(t, p)
		before := f.listCount()
		f.exit("a", "a1")
		for f.listCount() == before {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		wantEvents(t, p, "a ContainerDied a1")
		f.stream <- cri.Event{Kind: cri.EventStopped, UID: "a", ContainerID: "a1"}
		time.Sleep(2 * time.Second)
		if n := f.listsWithin(5 * time.Minute); n != 5 {
			t.Errorf("%d full lists in five minutes, want 5", n)
		}
		wantEvents(t, p)
	})
}

// A container that was reported as created but has not started is not a lost
// event when a list shows it.
func TestReportedCreationKeepsTheTrust(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		evented(t, p)
		f.change("a", func(st *cri.PodStatus) {
			st.Containers = append(st.Containers, cri.Container{ID: "a2", Name: "b", State: cri.StateCreated})
		})
		f.stream <- cri.Event{Kind: cri.EventCreated, UID: "a", ContainerID: "a2"}
		if n := f.listsWithin(5 * time.Minute); n != 5 {
			t.Errorf("%d full lists in five minutes, want 5", n)
		}
		if st, _ := p.Status("a"); container(st.Containers, "a2") == nil {
			t.Error("the created container is not in the cache")
		}
	})
}

// A list can show a change whose event was lost because the stream broke.
func TestSuspicionEndsWithTheStream(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		evented(t, p)
		before := f.listCount()
		f.exit("a", "a1")
		for f.listCount() == before {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		f.broken <- cri.ErrUnavailable
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := f.listsWithin(5 * time.Minute); n != 5 {
			t.Errorf("%d full lists in five minutes, want the new stream trusted", n)
		}
	})
}

func TestBrokenStreamFallsBackToListsUntilItReopens(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		evented(t, p)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		f.set(func() { f.noneErr = cri.ErrUnavailable })
		before := f.listCount()
		f.broken <- cri.ErrUnavailable
		synctest.Wait()
		if n := f.listCount() - before; n != 1 {
			t.Errorf("%d full lists at the break, want 1 at once", n)
		}
		f.exit("a", "a1")
		time.Sleep(time.Second)
		wantEvents(t, p, "a ContainerDied a1")
		if n := f.listsWithin(time.Minute); n != 60 {
			t.Errorf("%d full lists in a minute without a stream, want 60", n)
		}
		f.set(func() { f.noneErr = nil })
		time.Sleep(streamRetryMax + 5*time.Second)
		synctest.Wait()
		f.mu.Lock()
		again, lists := f.streams[len(f.streams)-1], 0
		for _, at := range f.lists {
			if at.After(again) {
				lists++
			}
		}
		f.mu.Unlock()
		if lists == 0 {
			t.Error("no full list after the reconnect")
		}
		if n := f.listsWithin(5 * time.Minute); n != 5 {
			t.Errorf("%d full lists in five minutes, want the stream trusted again", n)
		}
	})
}

// A change while the stream was down is not an event that it should have
// reported.
func TestChangeWhileDisconnectedIsNoLoss(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		evented(t, p)
		f.set(func() { f.listErr = cri.ErrUnavailable })
		f.broken <- cri.ErrUnavailable
		f.exit("a", "a1")
		time.Sleep(10 * time.Second)
		wantEvents(t, p)
		f.set(func() { f.listErr = nil })
		time.Sleep(5 * time.Second)
		wantEvents(t, p, "a ContainerDied a1")
		if n := f.listsWithin(5 * time.Minute); n > 6 {
			t.Errorf("%d full lists in five minutes, want the stream trusted", n)
		}
	})
}

func TestRuntimeWithoutStreamIsListed(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.set(func() { f.noneErr = cri.ErrUnimplemented })
		synctest.Wait()
		select {
		case f.broken <- cri.ErrUnimplemented: // the first call was earlier
		default:
		}
		if n := f.listsWithin(9 * time.Minute); n < 539 {
			t.Errorf("%d full lists in nine minutes, want one a second", n)
		}
		f.mu.Lock()
		streams := len(f.streams)
		f.mu.Unlock()
		if streams > 2 {
			t.Errorf("a stream was requested %d times", streams)
		}
		// The runtime was replaced by one that supports the stream.
		f.set(func() { f.noneErr = nil })
		time.Sleep(streamRetryNone)
		synctest.Wait()
		if !p.Stats().Evented {
			t.Error("the stream was not tried again")
		}
	})
}

func TestEventOfUnknownOriginCausesAFullList(t *testing.T) {
	for name, e := range map[string]cri.Event{
		"foreign pod":       {Kind: cri.EventStopped, UID: "x", ContainerID: "x1", Foreign: true},
		"unknown container": {Kind: cri.EventDeleted, ContainerID: "y1"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
				evented(t, p)
				time.Sleep(10 * time.Second)
				f.set(func() { f.foreign = []*cri.Pod{{UID: "x", Sandboxes: []cri.Sandbox{{ID: "x"}}}} })
				synctest.Wait()
				before := f.listCount()
				for range 50 {
					f.stream <- e
				}
				synctest.Wait()
				if n := f.listCount() - before; n < 1 || n > 2 {
					t.Errorf("%d full lists, want one at once", n)
				}
				wantEvents(t, p, "x ForeignChanged ")
				time.Sleep(2 * time.Second)
				if n := f.listsWithin(5 * time.Minute); n > 5 {
					t.Errorf("%d full lists in the five minutes after", n)
				}
			})
		})
	}
}

func TestRemovedSandboxIsFoundByItsID(t *testing.T) {
	bubble(t, false, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		evented(t, p)
		before := f.listCount()
		f.remove("a")
		f.stream <- cri.Event{Kind: cri.EventDeleted, ContainerID: "sandbox-a"}
		time.Sleep(50 * time.Millisecond)
		wantEvents(t, p, "a ContainerDied a1", "a ContainerRemoved a1", "a PodSync ")
		if f.listCount() != before {
			t.Error("took a full list though the sandbox was known")
		}
	})
}
