package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

func TestGenericRelistIsDueASecondAfterThePreviousEnded(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.set(func() { f.listTakes = 300 * time.Millisecond })
		start := time.Now()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		// The first list began before listTakes was set or with it.
		for i := 2; i < len(f.lists); i++ {
			if d := f.lists[i].Sub(f.lists[i-1]); d != 1300*time.Millisecond {
				t.Errorf("list %d began %v after the one before, want 1.3s", i, d)
			}
		}
		if len(f.lists) < 4 || f.lists[0] != start {
			t.Errorf("lists at %v, want the first at once and four in 5s", f.lists)
		}
	})
}

func TestRunningPodsAreToldOnce(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		time.Sleep(1500 * time.Millisecond)
		<-p.Changed()
		wantEvents(t, p, "a ContainerStarted a1", "a PodSync ")
		time.Sleep(10 * time.Second)
		wantEvents(t, p)
		if n := f.looksAt("a"); n != 1 {
			t.Errorf("an unchanged pod was looked at %d times, want 1", n)
		}
		select {
		case <-p.Changed():
			t.Error("woken though nothing changed")
		default:
		}
	})
}

func TestDiedAndStartedBetweenTwoLooksAreBothTold(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		time.Sleep(1500 * time.Millisecond)
		takeAll(p)
		f.exit("a", "a1")
		f.run("a", "a2")
		f.exit("a", "a2")
		f.run("a", "a3")
		time.Sleep(time.Second)
		wantEvents(t, p, "a ContainerStarted a3", "a ContainerStarted a2", "a ContainerDied a2", "a ContainerDied a1")
	})
}

func TestEventsWaitForASlowReader(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		var want []string
		for i := range 3000 {
			uid := types.UID(fmt.Sprintf("pod%d", i))
			f.run(uid, "c-"+string(uid))
			want = append(want, fmt.Sprintf("%s ContainerStarted c-%s", uid, uid), fmt.Sprintf("%s PodSync ", uid))
		}
		time.Sleep(time.Minute)
		got := takeAll(p)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%d events came, want %d: none may be dropped", len(got), len(want))
		}
	})
}

func TestRemovedPodLeavesTheCache(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		time.Sleep(1500 * time.Millisecond)
		takeAll(p)
		f.remove("a")
		removed := time.Now()
		st, err := p.NewerThan(t.Context(), "a", removed)
		if err != nil || !gone(st) || !st.At.After(removed) {
			t.Errorf("NewerThan = %+v, %v, want an empty status newer than the removal", st, err)
		}
		wantEvents(t, p, "a ContainerDied a1", "a ContainerRemoved a1", "a PodSync ")
		if st, ok := p.Status("a"); ok || st == nil {
			t.Errorf("Status = %v, %v, want an empty status and false", st, ok)
		}
		if own := p.Observed().Own; len(own) != 0 {
			t.Errorf("still observed: %+v", own[0])
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.cache.pods) != 0 {
			t.Errorf("the cache still has %d entries", len(p.cache.pods))
		}
	})
}

func TestRelistLooksAtOnce(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		time.Sleep(1500 * time.Millisecond)
		f.run("a", "a1")
		acted := time.Now()
		p.Relist("a")
		if _, err := p.NewerThan(t.Context(), "a", acted); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(acted); d > 2*time.Millisecond {
			t.Errorf("the look took %v, want it at once", d)
		}
		wantEvents(t, p, "a ContainerStarted a1", "a PodSync ")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := f.looksAt("a"); n != 1 {
			t.Errorf("%d looks, want 1: the list had nothing to add", n)
		}
	})
}

func TestFailedLookIsRepeated(t *testing.T) {
	for _, generic := range []bool{true, false} {
		t.Run(fmt.Sprintf("generic=%v", generic), func(t *testing.T) {
			bubble(t, generic, func(t *testing.T, f *fakeRuntime, p *PLEG) {
				time.Sleep(5500 * time.Millisecond)
				f.set(func() { f.lookErr["a"] = errors.New("no") })
				f.run("a", "a1")
				acted := time.Now()
				p.Relist("a")
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if n := f.looksAt("a"); n < 3 || n > 12 {
					t.Errorf("%d looks in 5s, want some with back-off", n)
				}
				wantEvents(t, p)
				f.set(func() { delete(f.lookErr, "a") })
				fixed := time.Now()
				if _, err := p.NewerThan(t.Context(), "a", acted); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(fixed); d > retryMax {
					t.Errorf("seen %v after the runtime recovered", d)
				}
				wantEvents(t, p, "a ContainerStarted a1", "a PodSync ")
			})
		})
	}
}

func TestOneSlowPodHoldsUpNoOther(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.set(func() { f.lookGates["slow"] = make(chan struct{}) })
		f.run("slow", "s1")
		f.run("a", "a1")
		time.Sleep(1500 * time.Millisecond)
		f.exit("a", "a1")
		acted := time.Now()
		if _, err := p.NewerThan(t.Context(), "a", acted); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(acted); d > 2*time.Millisecond {
			t.Errorf("waited %v for a slow neighbour", d)
		}
		if n := f.listsWithin(10 * time.Second); n != 10 {
			t.Errorf("%d lists in 10s, want 10", n)
		}
		if n := f.looksAt("slow"); n != 1 {
			t.Errorf("%d looks at the slow pod at once, want 1", n)
		}
	})
}

// A list that was asked for before the last look tells nothing of that pod.
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

// listing waits until a list that takes half a second is under way and has
// read what is there.
func listing(f *fakeRuntime) {
	f.set(func() { f.listTakes = 500 * time.Millisecond })
	time.Sleep(2 * time.Second)
	for n := f.listCount(); f.listCount() == n; {
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
	}
}

// A list that was asked for before the last look is no reason for another.
func TestListThatEndsAfterANewerLookIsIgnored(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		listing(f)
		f.run("a", "a2")
		looks := f.looksAt("a")
		p.Relist("a")
		time.Sleep(100 * time.Millisecond)
		looked := time.Now()
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if n := f.looksAt("a") - looks; n != 1 {
			t.Errorf("%d looks for one change", n)
		}
		// Nor does it take back what was known later than it was asked for.
		f.set(func() { f.lookErr["a"] = errors.New("no"); f.listErr = errors.New("no") })
		if _, err := p.NewerThan(t.Context(), "a", looked.Add(-100*time.Millisecond)); err != nil {
			t.Error(err)
		}
	})
}

func TestListDoesNotTakeBackWhatALookVouchedFor(t *testing.T) {
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
			t.Errorf("NewerThan = %v after %v: the older list took back what was known", err, time.Since(again))
		}
	})
}

// A look under way that was asked for after the list serves the list too.
func TestLookUnderWayServesAnOlderList(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		f.set(func() { f.listTakes = 500 * time.Millisecond })
		time.Sleep(2 * time.Second)
		takeAll(p)
		f.mu.Lock()
		next := f.lists[len(f.lists)-1].Add(1500 * time.Millisecond)
		f.mu.Unlock()
		time.Sleep(time.Until(next) - 10*time.Millisecond)
		f.exit("a", "a1") // the list will show it
		time.Sleep(100 * time.Millisecond)
		gate, looks := make(chan struct{}), f.looksAt("a")
		f.set(func() { f.lookGates["a"] = gate })
		p.Relist("a")
		time.Sleep(600 * time.Millisecond) // the list ends while the look is under way
		close(gate)
		time.Sleep(100 * time.Millisecond)
		wantEvents(t, p, "a ContainerDied a1")
		if n := f.looksAt("a") - looks; n != 1 {
			t.Errorf("%d looks, want 1", n)
		}
	})
}

func TestPodThatGoesBeforeALookSucceeded(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.set(func() { f.lookErr["a"] = errors.New("no") })
		known(f)
		f.remove("a")
		since := time.Now()
		st, err := p.NewerThan(t.Context(), "a", since)
		if err != nil || !gone(st) || time.Since(since) > time.Second {
			t.Errorf("NewerThan = %+v, %v after %v", st, err, time.Since(since))
		}
		wantEvents(t, p)
	})
}

// A look that was asked for before a list but answered after it must not hide
// what the list saw.
func TestSlowLookIsRepeatedIfAListSawMore(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		time.Sleep(1500 * time.Millisecond)
		takeAll(p)
		gate := make(chan struct{})
		f.set(func() { f.lookGates["a"] = gate })
		p.Relist("a")
		time.Sleep(10 * time.Millisecond)
		f.exit("a", "a1") // after the look read the truth
		time.Sleep(time.Second)
		f.set(func() { delete(f.lookGates, "a") })
		waiting := make(chan *cri.PodStatus, 1)
		since := time.Now()
		go func() {
			st, _ := p.NewerThan(t.Context(), "a", since)
			waiting <- st
		}()
		close(gate)
		if st := <-waiting; st.Containers[0].State != cri.StateExited || !st.At.After(since) {
			t.Errorf("NewerThan gave the older look: %+v", st)
		}
		wantEvents(t, p, "a ContainerDied a1")
	})
}

// known gives the PLEG a pod and lets it settle between two lists.
func known(f *fakeRuntime) {
	f.run("a", "a1")
	time.Sleep(1500 * time.Millisecond)
	synctest.Wait()
}

func TestNewerThanWhatIsThere(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		looks := f.looksAt("a")
		st, err := p.NewerThan(t.Context(), "a", time.Now().Add(-time.Second))
		if err != nil || len(st.Containers) != 1 || f.looksAt("a") != looks {
			t.Errorf("got %+v, %v, want the cached status without a look", st, err)
		}
	})
}

func TestNewerThanOfUnknownPodAndNewerList(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		known(f)
		st, err := p.NewerThan(t.Context(), "nobody", time.Now().Add(-time.Second))
		if err != nil || !gone(st) || st.UID != "nobody" || f.looksAt("nobody") != 0 {
			t.Errorf("got %+v, %v, want an empty status without a look", st, err)
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
			t.Error("the waiter was left behind")
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
		looks := f.looksAt("a")
		time.Sleep(time.Minute)
		if n := f.looksAt("a") - looks; n != 0 {
			t.Errorf("%d looks after the list had answered", n)
		}
	})
}

// What a list showed but no look has confirmed is not known.
func TestNewerThanWaitsForTheLookThatAListAskedFor(t *testing.T) {
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
		if n := f.looksAt("a"); n != 1 {
			t.Errorf("%d looks for %d waiters, want 1", n, cap(done))
		}
	})
}

func TestIPsOutliveTheSandbox(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		time.Sleep(1500 * time.Millisecond)
		f.change("a", func(st *cri.PodStatus) { st.Sandboxes[0].Ready, st.IPs = false, nil })
		time.Sleep(time.Second)
		synctest.Wait()
		if st, _ := p.Status("a"); !slices.Equal(st.IPs, []string{"10.0.0.1"}) {
			t.Errorf("IPs = %v without a ready sandbox, want the last ones", st.IPs)
		}
		f.change("a", func(st *cri.PodStatus) {
			st.Sandboxes = append([]cri.Sandbox{{ID: "new", Attempt: 1, Ready: true}}, st.Sandboxes...)
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if st, _ := p.Status("a"); len(st.IPs) != 0 {
			t.Errorf("IPs = %v of a ready sandbox without any", st.IPs)
		}
	})
}

func TestObservedShowsTheNewerLook(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		f.run("b", "b1")
		f.set(func() { f.foreign = []*cri.Pod{{UID: "x", Sandboxes: []cri.Sandbox{{ID: "x", Ready: true}}}} })
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		base := p.Observed()
		f.exit("a", "a1")
		f.remove("b")
		f.run("c", "c1")
		for _, uid := range []types.UID{"a", "b", "c"} {
			p.Relist(uid)
		}
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		o := p.Observed()
		states := map[types.UID]cri.State{}
		for _, pod := range o.Own {
			states[pod.UID] = pod.Containers[0].State
		}
		if len(o.Own) != 2 || states["a"] != cri.StateExited || states["c"] != cri.StateRunning {
			t.Errorf("observed %v, want a exited, b gone, c running", states)
		}
		if len(o.Foreign) != 1 || o.At != base.At {
			t.Errorf("foreign pods %v at %v, want those of the list", o.Foreign, o.At)
		}
	})
}

func TestForeignPodsAreTold(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		foreign := func(ready bool) *cri.Pod {
			return &cri.Pod{UID: "x", Sandboxes: []cri.Sandbox{{ID: "x", Ready: ready}}}
		}
		f.set(func() { f.foreign = []*cri.Pod{foreign(true)} })
		time.Sleep(1500 * time.Millisecond)
		wantEvents(t, p, "x ForeignChanged ")
		time.Sleep(3 * time.Second)
		wantEvents(t, p)
		f.set(func() { f.foreign = []*cri.Pod{foreign(false)} })
		time.Sleep(time.Second)
		wantEvents(t, p, "x ForeignChanged ")
		f.set(func() { f.foreign = nil })
		time.Sleep(time.Second)
		wantEvents(t, p, "x ForeignChanged ")
		if f.looksAt("x") != 0 {
			t.Error("looked at a pod that is not ours")
		}
	})
}

func TestHealthy(t *testing.T) {
	if err := New(Config{Runtime: newFake()}).Healthy(); err == nil {
		t.Error("healthy before the first list")
	}
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		time.Sleep(time.Second)
		if err := p.Healthy(); err != nil {
			t.Error(err)
		}
		f.set(func() { f.listErr = errors.New("no") })
		time.Sleep(UnhealthyAfter - 2*time.Second)
		if err := p.Healthy(); err != nil {
			t.Errorf("unhealthy too early: %v", err)
		}
		time.Sleep(4 * time.Second)
		if err := p.Healthy(); err == nil {
			t.Error("healthy though the last list is too old")
		}
		f.set(func() { f.listErr = nil })
		time.Sleep(2 * time.Second)
		if err := p.Healthy(); err != nil {
			t.Error(err)
		}
	})
}
