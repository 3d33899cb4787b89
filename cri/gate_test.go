package cri

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Calls enter by priority, then by stage, then in their order.
func TestGateOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{free: 1}
		leave, err := g.enter(t.Context(), 0, stageBegin, time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order, noticed []string
		var all sync.WaitGroup
		for _, c := range []struct {
			name     string
			priority int32
			stage    int
		}{{"first", 0, stageBegin}, {"second", 0, stageBegin}, {"removal", 0, stageRemove}, {"begun", 0, stageFinish},
			{"critical", 9, stageBegin}} {
			all.Go(func() {
				leave, err := g.enter(t.Context(), c.priority, c.stage, time.Minute,
					func() { mu.Lock(); noticed = append(noticed, c.name); mu.Unlock() })
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, c.name)
				mu.Unlock()
				leave()
				leave() // once is enough
			})
			synctest.Wait()
		}
		time.Sleep(2 * queuedNotice)
		leave()
		all.Wait()
		if want := []string{"critical", "begun", "first", "second", "removal"}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
		if len(noticed) != 5 {
			t.Errorf("%v were told that they wait, once each", noticed)
		}
		if g.free != 1 {
			t.Errorf("%d free, want 1", g.free)
		}
	})
}

// A call that hangs keeps no other waiting for longer than hold, and one that is
// given up while it waits frees its place.
func TestGateOfHangingAndCancelledCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{free: 1}
		if _, err := g.enter(t.Context(), 0, stageBegin, gateHold, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.enter(ctx, 0, stageBegin, gateHold, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled call: %v", err)
		}
		began := time.Now()
		leave, err := g.enter(t.Context(), 0, stageBegin, gateHold, nil)
		if took := time.Since(began); err != nil || took != gateHold-time.Second {
			t.Errorf("entered after %s: %v", took, err)
		}
		leave()
		if g.free != 1 || len(g.queue) != 0 {
			t.Errorf("%d free, %d wait", g.free, len(g.queue))
		}
	})
}
