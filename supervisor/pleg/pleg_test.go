package pleg

import (
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
		// The first list began before or with the setting of listTakes.
		for i := 2; i < len(f.lists); i++ {
			if d := f.lists[i].Sub(f.lists[i-1]); d != 1300*time.Millisecond {
				t.Errorf("list %d began %v after the previous one, want 1.3s", i, d)
			}
		}
		if len(f.lists) < 4 || !f.lists[0].Equal(start) {
			t.Errorf("lists at %v, want the first at once and four in 5s", f.lists)
		}
	})
}

func TestRunningPodsAreReportedOnce(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.run("a", "a1")
		time.Sleep(1500 * time.Millisecond)
		<-p.Changed()
		wantEvents(t, p, "a ContainerStarted a1", "a PodSync ")
		time.Sleep(10 * time.Second)
		wantEvents(t, p)
		if n := f.inspectionsOf("a"); n != 1 {
			t.Errorf("an unchanged pod was inspected %d times, want 1", n)
		}
		select {
		case <-p.Changed():
			t.Error("notified though nothing changed")
		default:
		}
	})
}

func TestDiedAndStartedBetweenTwoInspectionsAreBothReported(t *testing.T) {
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

func TestRelistInspectsAtOnce(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		time.Sleep(1500 * time.Millisecond)
		f.run("a", "a1")
		acted := time.Now()
		p.Relist("a")
		if _, err := p.NewerThan(t.Context(), "a", acted); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(acted); d > 2*time.Millisecond {
			t.Errorf("the inspection took %v, want it at once", d)
		}
		wantEvents(t, p, "a ContainerStarted a1", "a PodSync ")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := f.inspectionsOf("a"); n != 1 {
			t.Errorf("%d inspections, want 1: the list had nothing to add", n)
		}
	})
}

func TestFailedInspectionIsRepeated(t *testing.T) {
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
				if n := f.inspectionsOf("a"); n < 3 || n > 12 {
					t.Errorf("%d inspections in 5s, want some with back-off", n)
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

func TestSlowPodDoesNotDelayOthers(t *testing.T) {
	bubble(t, true, func(t *testing.T, f *fakeRuntime, p *PLEG) {
		f.set(func() { f.inspectGates["slow"] = make(chan struct{}) })
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
		if n := f.inspectionsOf("slow"); n != 1 {
			t.Errorf("%d inspections at the slow pod at once, want 1", n)
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

func TestObservedShowsTheNewerInspection(t *testing.T) {
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

func TestForeignPodsAreReported(t *testing.T) {
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
		if f.inspectionsOf("x") != 0 {
			t.Error("inspected a foreign pod")
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
