package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
		var ready atomic.Value
		ready.Store("the runtime does not answer")
		r.a.cfg.Node = func() *v1.Node {
			n := described()
			n.Status.NodeInfo.ContainerRuntimeVersion = "containerd://1.7.2"
			for i := range n.Status.Conditions {
				if c := &n.Status.Conditions[i]; c.Type == v1.NodeReady {
					c.Message = ready.Load().(string)
				}
			}
			return n
		}
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
			r.replace(t, n)
		}
		r.warnings()
		assign("10.1.0.0/24", "fd00:1::/64")
		pass(time.Minute)
		if attempts, n := len(calls()), len(r.warnings()); attempts < 3 || n != 1 {
			t.Errorf("%d attempts in a minute, %d warnings", attempts, n)
		}
		pass(4 * time.Hour)
		if attempts := len(calls()); attempts < 40 || attempts > 60 {
			t.Errorf("%d attempts in four hours", attempts)
		}
		mu.Lock()
		fault, got = nil, nil
		mu.Unlock()
		ready.Store("the network is not ready")
		pass(20 * time.Second)
		if got := calls(); len(got) != 1 {
			t.Errorf("after the condition of the node has changed the runtime got %q", got)
		}
		pass(time.Hour)
		assign("10.2.0.0/24")
		pass(time.Hour)
		if got, want := calls(), []string{"10.1.0.0/24,fd00:1::/64", "10.2.0.0/24"}; !slices.Equal(got, want) {
			t.Errorf("the runtime got %q, want %q", got, want)
		}
	})
}

// A runtime that has no call for address ranges is asked once, and again after it was replaced
// by another version; a call that it does not respond is logged.
func TestPodCIDRFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		var calls atomic.Int32
		var version atomic.Value
		version.Store("other://1.0")
		var response atomic.Value
		response.Store(func(context.Context) error {
			return fmt.Errorf("%w: rpc error: code = Unimplemented", errors.ErrUnsupported)
		})
		r.a.cfg.UpdatePodCIDR = func(ctx context.Context, _ string) error {
			calls.Add(1)
			return response.Load().(func(context.Context) error)(ctx)
		}
		r.a.cfg.Node = func() *v1.Node {
			n := described()
			n.Status.NodeInfo.ContainerRuntimeVersion = version.Load().(string)
			return n
		}
		r.start()
		defer r.end()
		pass(time.Minute)
		n := &v1.Node{}
		if !r.get(t, "nodes", "", "edge", n) {
			t.Fatal("no node")
		}
		n.Spec.PodCIDRs = []string{"10.1.0.0/24"}
		r.warnings()
		version.Store("")
		r.replace(t, n)
		check := func(what string, wantCalls func(int32) bool, wantWarning string) {
			t.Helper()
			calls.Store(0)
			pass(time.Hour)
			warnings := r.warnings()
			if got := calls.Load(); !wantCalls(got) {
				t.Errorf("%s: %d calls in an hour", what, got)
			}
			if len(warnings) != 1 || !strings.Contains(warnings[0], wantWarning) {
				t.Errorf("%s: warnings %q", what, warnings)
			}
		}
		one := func(n int32) bool { return n == 1 }
		pass(time.Hour)
		if got := calls.Load(); got != 0 {
			t.Errorf("%d calls to a runtime that has not answered yet", got)
		}
		version.Store("other://1.0")
		check("a runtime without the call", one, "takes no pod CIDR")
		version.Store("other://1.1")
		check("another version without it", one, "takes no pod CIDR")
		response.Store(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		version.Store("other://1.2")
		check("a runtime that does not answer", func(n int32) bool { return n > 10 }, "deadline exceeded")
	})
}
