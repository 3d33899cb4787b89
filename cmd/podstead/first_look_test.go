package main

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestAfterFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pod atomic.Pointer[v1.Pod]
		pod.Store(&v1.Pod{})
		changed := make(chan struct{}, 1)
		list := func() []*v1.Pod { return []*v1.Pod{pod.Load()} }
		subscribe := func() (<-chan struct{}, func()) { return changed, func() {} }
		ask := func(pods func() []*v1.Pod) time.Duration {
			start := time.Now()
			pods()
			return time.Since(start)
		}
		slow := afterFirstLook(list, subscribe)
		if took := ask(slow); took != firstLook {
			t.Errorf("one that is never looked at is waited for %s", took)
		}
		if took := ask(slow); took != 0 {
			t.Errorf("it is waited for again, %s", took)
		}
		time.AfterFunc(time.Second, func() {
			pod.Store(&v1.Pod{Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady}}}})
			changed <- struct{}{}
		})
		if took := ask(afterFirstLook(list, subscribe)); took != time.Second {
			t.Errorf("it is waited for %s", took)
		}
	})
}
