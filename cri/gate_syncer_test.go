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
