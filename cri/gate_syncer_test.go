package cri_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// Of many pods that start at once, those that were begun are finished first, and one
// of a higher priority overtakes the others.
func TestStartsAndStopsOfManyPods(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		const pods = 100
		for _, method := range []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopPodSandbox"} {
			b.fake.Latency(method, time.Second)
		}
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		begin := time.Now()
		var first time.Duration
		for i := range pods {
			p := b.pod.DeepCopy()
			p.Name, p.UID = fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("u%d", i))
			if i == pods-1 {
				high := int32(1000)
				p.Spec.Priority = &high
			}
			all.Go(func() {
				if r := b.syncer.Sync(t.Context(), cri.SyncRequest{Pod: p, Status: &cri.PodStatus{UID: p.UID}}); r.Err != nil {
					t.Error(r.Err)
				}
				mu.Lock()
				defer mu.Unlock()
				if len(order) == 0 {
					first = time.Since(begin)
				}
				order = append(order, i)
			})
			synctest.Wait()
		}
		all.Wait()
		if at := slices.Index(order, pods-1); at > pods/2 {
			t.Errorf("the pod of the highest priority came as number %d", at+1)
		}
		// Its own calls take 3 s, those of all pods more than ten times that.
		if first > 6*time.Second {
			t.Errorf("the first pod came after %s", first)
		}
		began := time.Now()
		observed, err := b.client.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range observed.Own {
			all.Go(func() {
				if err := b.syncer.Kill(t.Context(), cri.KillRequest{Observed: p, Grace: 30}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("all pods were stopped within %s: nothing bounds the stops", took)
		}
	})
}

// The stops of 300 pods whose containers ignore the signal do not time out, although each takes the
// runtime half a second, twice as long as it occupies the gate: neither those of the containers, of
// which an edit in place restarts all at once, nor those of the pods.
func TestStopsOfManyStubbornPods(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		const pods, work = 300, 500 * time.Millisecond
		b.fake.Behave("a", critest.Behaviour{IgnoreTerm: true})
		b.fake.SetImages("registry.example/a:1", "registry.example/a:2")
		list := make([]*v1.Pod, pods)
		for i := range list {
			list[i] = b.pod.DeepCopy()
			list[i].Name, list[i].UID = fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("u%d", i))
		}
		all := func(what string, f func(p *v1.Pod, observed *cri.PodStatus) error) {
			t.Helper()
			var group sync.WaitGroup
			begin := time.Now()
			for _, p := range list {
				observed, err := b.client.PodStatus(t.Context(), p.UID)
				if err != nil {
					t.Fatal(err)
				}
				group.Go(func() {
					if err := f(p, observed); err != nil {
						t.Errorf("%s of %s: %v", what, p.Name, err)
					}
				})
			}
			group.Wait()
			t.Logf("%s took %s", what, time.Since(begin))
		}
		run := func(p *v1.Pod, observed *cri.PodStatus) error {
			return b.syncer.Sync(t.Context(), cri.SyncRequest{Pod: p, Status: observed, ResolveInputs: b.inputs}).Err
		}
		all("the start", run)
		b.fake.Work("StopContainer", work)
		b.fake.Work("StopPodSandbox", work)
		for _, p := range list {
			p.Spec.Containers[0].Image = "registry.example/a:2"
		}
		all("the edit", run)
		running := 0
		for _, c := range b.fake.Containers() {
			if c.Running() && c.Config.GetImage().GetUserSpecifiedImage() == "registry.example/a:2" {
				running++
			}
		}
		if running != pods {
			t.Errorf("%d containers of the new image run", running)
		}
		all("the removal", func(_ *v1.Pod, observed *cri.PodStatus) error {
			return b.syncer.Kill(t.Context(), cri.KillRequest{Observed: observed.Pod(), Grace: 30})
		})
		if n := b.fake.Calls("StopContainer"); n != 2*pods {
			t.Errorf("%d stops of containers, want one of each", n)
		}
	})
}
