package supervisor

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/podset"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// TestIdleMeansNoWork: with nothing to do the loop sleeps, except for the
// resyncs, which are a minute and more apart, and nothing is written anywhere.
func TestIdleMeansNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSupervisorHarness(t, false)
		defer b.kill()
		d := b.start()
		var pods []*v1.Pod
		for i := range 20 {
			pods = append(pods, testPod(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i)), "r1"))
		}
		d.config.deliver(file, pods...)
		b.after(5 * time.Minute)
		changed, cancel := d.statuses.Subscribe()
		defer cancel()
		writes := len(b.fake.Writes())
		syncs := d.ran.Load()
		b.after(10 * time.Minute)
		b.noWrites(writes)
		select {
		case <-changed:
			t.Error("a status changed")
		default:
		}
		// 10 minutes with a resync each 60 to 90 s are 6 to 10 syncs
		// per pod.
		if n := d.ran.Load() - syncs; n < 20*6 || n > 20*11 {
			t.Errorf("%d syncs of 20 pods in 10 idle minutes", n)
		}
	})
}

// BenchmarkSteadySync measures one resync of one of a thousand idle pods, over
// the real cache and syncer: the cost of each pod every 75 s on average.
func BenchmarkSteadySync(b *testing.B) {
	tb := newSupervisorHarness(b, true)
	defer tb.kill()
	d := tb.start()
	pods := make([]*v1.Pod, 1000)
	for i := range pods {
		pods[i] = testPod(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i)), "r1")
	}
	d.config.deliver(file, pods...)
	tb.allRun(b, pods)
	runs := make([]*runState, len(pods))
	for i := range runs {
		runs[i] = &runState{}
	}
	one := func(i int) {
		out := d.podSyncer.Sync(b.Context(), podworkers.SyncJob{State: podworkers.Syncing, Desired: true, Pod: pods[i]},
			runs[i])
		if out.Err != nil {
			b.Fatal(out.Err)
		}
	}
	for i := range pods {
		one(i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		one(i % len(pods))
		i++
	}
}

// BenchmarkHousekeeping measures one round over a thousand pods that are all
// desired.
func BenchmarkHousekeeping(b *testing.B) {
	s := &Supervisor{desired: podset.New(), workers: podworkers.New(idleSyncer{})}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	s.workers.Start(ctx, &wg)
	observed := &cri.Observed{At: time.Now()}
	for i := range 1000 {
		uid := types.UID(fmt.Sprint("u", i))
		s.workers.Update(testPod(fmt.Sprint("p", i), uid, "r1"))
		observed.Own = append(observed.Own, &cri.Pod{UID: uid, Source: "file", Sandboxes: []cri.Sandbox{{Ready: true}}})
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, found := range observed.Own {
			if s.unattended(found) {
				b.Fatal("unattended")
			}
		}
	}
}

// idleSyncer syncs pods that need nothing.
type idleSyncer struct{}

func (idleSyncer) Sync(context.Context, podworkers.SyncJob, *runState) podworkers.SyncResult {
	return podworkers.SyncResult{}
}

// allRun waits, in real time, until all pods run and are published as running.
func (b *supervisorHarness) allRun(t testing.TB, pods []*v1.Pod) {
	changed, cancel := b.daemon.statuses.Subscribe()
	defer cancel()
	limit := time.After(2 * time.Minute)
	for {
		running := 0
		for _, pod := range pods {
			if b.daemon.status(pod.UID).Phase == v1.PodRunning {
				running++
			}
		}
		if running == len(pods) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%d of %d pods run", running, len(pods))
		}
	}
}
