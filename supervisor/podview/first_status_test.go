package podview

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestFirstStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pod atomic.Pointer[v1.Pod]
		pod.Store(&v1.Pod{})
		changed := make(chan struct{}, 1)
		var complete atomic.Bool
		list := func() []*v1.Pod { return []*v1.Pod{pod.Load()} }
		subscribe := func() (<-chan struct{}, func()) { return changed, func() {} }
		await := func(f *FirstStatus) time.Duration {
			start := time.Now()
			f.Await(complete.Load, list, subscribe)
			return time.Since(start)
		}
		var never, later FirstStatus
		if took := await(&never); took != firstStatusTimeout {
			t.Errorf("waited %s for a pod without a status, want %s", took, firstStatusTimeout)
		}
		if took := await(&never); took != 0 {
			t.Errorf("the second call waited %s, want 0", took)
		}
		time.AfterFunc(time.Second, func() {
			pod.Store(&v1.Pod{Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady}}}})
			changed <- struct{}{}
		})
		time.AfterFunc(2*time.Second, func() {
			complete.Store(true)
			changed <- struct{}{}
		})
		if took := await(&later); took != 2*time.Second {
			t.Errorf("waited %s for a status that comes after a second, and all pods after two", took)
		}
	})
}
