package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// TestMain runs the tests of a package in namespaces of their own, with a registry.
func TestMain(m *testing.M) {
	testbed.Isolate(testbed.Build)
	r, err := testbed.StartRegistry()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	registry = r
	os.Exit(m.Run())
}

// registry is the registry from which all runtimes pull.
var registry *testbed.Registry

// shared holds the runtimes that most tests share. The first test that needs a runtime starts
// it. They end with the namespaces.
var shared struct {
	sync.Mutex
	runtimes map[testbed.Kind]*testbed.Runtime
}

// sharedRuntime returns the runtime of a kind that most tests of a package share.
func sharedRuntime(t *testing.T, kind testbed.Kind) *testbed.Runtime {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if rt := shared.runtimes[kind]; rt != nil {
		return rt
	}
	rt := startRuntime(t, kind)
	if shared.runtimes == nil {
		shared.runtimes = map[testbed.Kind]*testbed.Runtime{}
	}
	shared.runtimes[kind] = rt
	return rt
}

// startRuntime starts a runtime with the busybox image in it.
func startRuntime(t *testing.T, kind testbed.Kind) *testbed.Runtime {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	rt, err := testbed.StartRuntime(ctx, kind, registry)
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.CRI.Pull(ctx, testbed.BusyboxImage); err != nil {
		t.Fatal(err)
	}
	return rt
}

// onEachRuntime runs a test on each kind of runtime, in parallel with other tests.
func onEachRuntime(t *testing.T, test func(t *testing.T, n *node)) {
	t.Helper()
	t.Parallel()
	for _, kind := range testbed.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, newNode(t, sharedRuntime(t, kind)))
		})
	}
}

// onEachPrivateRuntime runs a test on a runtime that no other test uses.
func onEachPrivateRuntime(t *testing.T, test func(t *testing.T, n *node)) {
	t.Helper()
	t.Parallel()
	for _, kind := range testbed.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rt := startRuntime(t, kind)
			// Runs after the node's own cleanup.
			t.Cleanup(func() {
				if err := rt.Close(context.Background()); err != nil {
					t.Errorf("cannot clear the runtime: %v", err)
				}
			})
			test(t, newNode(t, rt))
		})
	}
}

var nodes atomic.Int64

// nodeName returns a node name that no other test uses.
func nodeName() string { return fmt.Sprintf("n%d", nodes.Add(1)) }
