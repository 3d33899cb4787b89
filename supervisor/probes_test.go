package supervisor

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/probe"
)

type fakeProbes struct {
	changed chan struct{}
	mu      sync.Mutex
	uids    []types.UID
	results probe.Results
}

func (p *fakeProbes) Changed() <-chan struct{} { return p.changed }
func (p *fakeProbes) TakeChanged() []types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	uids := p.uids
	p.uids = nil
	return uids
}

func (p *fakeProbes) Results(types.UID) probe.Results {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.results
}

func (p *fakeProbes) UpdatePod(probe.Pod)              {}
func (p *fakeProbes) StopLivenessAndStartup(types.UID) {}
func (p *fakeProbes) RemovePod(types.UID)              {}

func (p *fakeProbes) set(uid types.UID, r probe.Results) {
	p.mu.Lock()
	p.uids, p.results = []types.UID{uid}, r
	p.mu.Unlock()
	p.changed <- struct{}{}
}

func TestProbeResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSupervisorHarness(t, false)
		defer b.kill()
		probes := &fakeProbes{changed: make(chan struct{}, 1)}
		b.sources = func(s *Sources) { s.Probes = probes }
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.after(time.Second)
		c, _ := b.fake.Newest("app")
		probes.set("u1", probe.Results{Ready: map[string]bool{c.ID: false}})
		b.after(time.Second)
		if ready(d.Pods()[0]) {
			t.Error("a pod whose readiness probe failed is ready")
		}
		n := len(b.fake.Writes())
		b.noWrites(n)
		probes.set("u1", probe.Results{Failed: map[string]probe.Kind{c.ID: probe.Liveness}})
		b.until(time.Minute, "restarted", func() bool { return b.fake.Starts("u1", "app") == 2 })
	})
}

func TestReadyIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSupervisorHarness(t, false)
		defer b.kill()
		var mu sync.Mutex
		reported := 0
		b.sources = func(s *Sources) {
			s.Ready = func(types.UID) {
				mu.Lock()
				defer mu.Unlock()
				reported++
			}
		}
		b.start().config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.after(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if reported != 1 {
			t.Errorf("reported %d times", reported)
		}
	})
}
