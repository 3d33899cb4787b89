package pleg

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// overCRI runs a test with a PLEG over the real client and a CRI server.
func overCRI(t *testing.T, events bool, test func(t *testing.T, f *critest.Fake, p *PLEG)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		f.SetEvents(events)
		p := New(Config{Runtime: f.Client(t)})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = p.Run(ctx) })
		test(t, f, p)
		cancel()
		wg.Wait()
	})
}

func putPod(f *critest.Fake, uid string) {
	f.Put(critest.Pod{UID: uid, Name: uid, Namespace: "default", Instance: critest.Instance, Containers: []string{"web"}})
}

// kinds returns the kinds of a pod's events, sorted.
func kinds(p *PLEG, uid types.UID) []string {
	synctest.Wait()
	var list []string
	for _, e := range p.Drain() {
		if e.UID == uid {
			list = append(list, e.Kind.String())
		}
	}
	slices.Sort(list)
	return list
}

func wantKinds(t *testing.T, p *PLEG, uid types.UID, want ...string) {
	t.Helper()
	if got := kinds(p, uid); !slices.Equal(got, want) {
		t.Errorf("%s: events %v, want %v", uid, got, want)
	}
}

// died waits for the end of a pod's container and returns how long it took.
func died(t *testing.T, p *PLEG, uid types.UID) time.Duration {
	t.Helper()
	start := time.Now()
	for time.Since(start) < 10*time.Minute {
		select {
		case <-p.Changed():
		case <-time.After(time.Second):
		}
		for _, e := range p.Drain() {
			if e.UID == uid && e.Kind == ContainerDied {
				return time.Since(start)
			}
		}
	}
	t.Fatalf("the exit of %s was never reported", uid)
	return 0
}

func TestOverCRI(t *testing.T) {
	for _, events := range []bool{false, true} {
		t.Run(fmt.Sprintf("events=%v", events), func(t *testing.T) {
			overCRI(t, events, func(t *testing.T, f *critest.Fake, p *PLEG) {
				putPod(f, "a")
				time.Sleep(10500 * time.Millisecond)
				synctest.Wait()
				if got := p.Stats().Evented; got != events {
					t.Fatalf("evented %v, want %v", got, events)
				}
				wantKinds(t, p, "a", "ContainerStarted", "PodSync")

				limit := 1100 * time.Millisecond
				if events {
					limit = 100 * time.Millisecond
				}
				f.Exit("a/web", 3)
				if d := died(t, p, "a"); d > limit {
					t.Errorf("an exit was reported after %v, want %v at most", d, limit)
				}
				st, ok := p.Status("a")
				if c := st.Newest("web"); !ok || c == nil || c.State != cri.StateExited || c.ExitCode != 3 {
					t.Errorf("cached status %+v", st)
				}
				f.EndPod("a")
				time.Sleep(limit)
				wantKinds(t, p, "a", "ContainerRemoved", "PodSync")
			})
		})
	}
}

func TestFaultsOfAnEventStreamOverCRI(t *testing.T) {
	cases := []struct {
		name  string
		fault func(f *critest.Fake)
		limit time.Duration // until the exit of a container is reported
	}{
		{"none", func(*critest.Fake) {}, 100 * time.Millisecond},
		{"doubled", func(f *critest.Fake) { f.DoubleEvents(-1) }, 100 * time.Millisecond},
		{"dropped", func(f *critest.Fake) { f.DropEvents(-1) }, EventedPeriod},
		{"broken", func(f *critest.Fake) { f.BreakEvents() }, 1100 * time.Millisecond},
		{"disconnected", func(f *critest.Fake) { f.Disconnect() }, 5 * time.Second},
		{"first inspection fails", func(f *critest.Fake) {
			f.Inject("ContainerStatus", critest.Fault{Before: critest.Err(14, "busy")})
		}, time.Second},
		{"stale lists", func(f *critest.Fake) { f.StaleLists(3) }, 5 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			overCRI(t, true, func(t *testing.T, f *critest.Fake, p *PLEG) {
				putPod(f, "a")
				putPod(f, "b")
				time.Sleep(10 * time.Second)
				kinds(p, "a")
				inspections := f.Calls("ContainerStatus")
				c.fault(f)
				f.Exit("a/web", 1)
				if d := died(t, p, "a"); d > c.limit {
					t.Errorf("reported after %v, want %v at most", d, c.limit)
				}
				if n := f.Calls("ContainerStatus") - inspections; n > 3 {
					t.Errorf("%d inspections for one exit", n)
				}
				time.Sleep(3 * time.Minute)
				wantKinds(t, p, "a")
			})
		})
	}
}

func TestRuntimeDownAndUpAgainOverCRI(t *testing.T) {
	for _, events := range []bool{false, true} {
		t.Run(fmt.Sprintf("events=%v", events), func(t *testing.T) {
			overCRI(t, events, func(t *testing.T, f *critest.Fake, p *PLEG) {
				putPod(f, "a")
				putPod(f, "b")
				time.Sleep(10 * time.Second)
				kinds(p, "a")
				f.Down()
				f.Exit("a/web", 1)
				time.Sleep(4 * time.Minute)
				if p.Healthy() == nil {
					t.Error("healthy while the runtime has been down for minutes")
				}
				wantKinds(t, p, "a")
				f.Up()
				if d := died(t, p, "a"); d > 5*time.Second {
					t.Errorf("missed changes were reported %v after the runtime came back", d)
				}
				if err := p.Healthy(); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				if got := p.Stats().Evented; got != events {
					t.Errorf("evented %v a minute later, want %v", got, events)
				}
			})
		})
	}
}

// An idle PLEG causes only list calls.
func TestIdleCallsOverCRI(t *testing.T) {
	for events, want := range map[bool]int{false: 60, true: 1} {
		t.Run(fmt.Sprintf("events=%v", events), func(t *testing.T) {
			overCRI(t, events, func(t *testing.T, f *critest.Fake, p *PLEG) {
				for i := range 20 {
					putPod(f, fmt.Sprintf("pod%d", i))
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				lists, inspections := f.Calls("ListContainers"), f.Calls("ContainerStatus")
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := f.Calls("ListContainers") - lists; n != want {
					t.Errorf("%d lists in an idle minute, want %d", n, want)
				}
				if n := f.Calls("ContainerStatus") - inspections; n != 0 {
					t.Errorf("%d inspections in an idle minute, want none", n)
				}
			})
		})
	}
}
