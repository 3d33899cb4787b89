package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// The runtime gets the address ranges of the node's pods once, again when they change, and
// until it accepts them.
func TestPodCIDR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		var mu sync.Mutex
		var got []string
		fault := errors.New("no")
		r.a.cfg.UpdatePodCIDR = func(_ context.Context, cidrs string) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, cidrs)
			return fault
		}
		calls := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(got)
		}
		r.start()
		defer r.end()
		pass(time.Minute)
		if got := calls(); len(got) > 0 {
			t.Errorf("without ranges the runtime got %q", got)
		}
		assign := func(cidrs ...string) {
			n := &v1.Node{}
			if !r.get(t, "nodes", "", "edge", n) {
				t.Fatal("no node")
			}
			n.Spec.PodCIDRs = cidrs
			r.put(t, n)
		}
		r.warnings()
		assign("10.1.0.0/24", "fd00:1::/64")
		pass(time.Minute)
		if attempts, n := len(calls()), len(r.warnings()); attempts < 5 || n != 1 {
			t.Errorf("%d attempts in a minute, %d warnings", attempts, n)
		}
		mu.Lock()
		fault, got = nil, nil
		mu.Unlock()
		pass(time.Hour)
		assign("10.2.0.0/24")
		pass(time.Hour)
		if got, want := calls(), []string{"10.1.0.0/24,fd00:1::/64", "10.2.0.0/24"}; !slices.Equal(got, want) {
			t.Errorf("the runtime got %q, want %q", got, want)
		}
	})
}
