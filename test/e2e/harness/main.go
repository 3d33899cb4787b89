package harness

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

// Main runs the tests of a package in namespaces of their own, with a registry.
func Main(m *testing.M) {
	testbed.Isolate(testbed.Build)
	r, err := testbed.StartRegistry()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	Registry = r
	os.Exit(m.Run())
}

// Registry is the registry from which all runtimes pull.
var Registry *testbed.Registry

// shared holds the runtimes that most tests share. The first test that needs a runtime starts
// it. They end with the namespaces.
var shared struct {
	sync.Mutex
	runtimes map[testbed.Kind]*testbed.Runtime
}

// SharedRuntime returns the runtime of a kind that most tests of a package share.
func SharedRuntime(t *testing.T, kind testbed.Kind) *testbed.Runtime {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if rt := shared.runtimes[kind]; rt != nil {
		return rt
	}
	rt := StartRuntime(t, kind)
	if shared.runtimes == nil {
		shared.runtimes = map[testbed.Kind]*testbed.Runtime{}
	}
	shared.runtimes[kind] = rt
	return rt
}

// StartRuntime starts a runtime with the busybox image in it.
func StartRuntime(t *testing.T, kind testbed.Kind) *testbed.Runtime {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	rt, err := testbed.StartRuntime(ctx, kind, Registry)
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.CRI.Pull(ctx, testbed.BusyboxImage); err != nil {
		t.Fatal(err)
	}
	return rt
}

// OnEachRuntime runs a test on each kind of runtime, in parallel with other tests.
func OnEachRuntime(t *testing.T, test func(t *testing.T, n *Node)) {
	t.Helper()
	t.Parallel()
	for _, kind := range testbed.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, NewNode(t, SharedRuntime(t, kind)))
		})
	}
}

// OnEachPrivateRuntime runs a test on a runtime that no other test uses.
func OnEachPrivateRuntime(t *testing.T, test func(t *testing.T, n *Node)) {
	t.Helper()
	t.Parallel()
	for _, kind := range testbed.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rt := StartRuntime(t, kind)
			// Runs after the node's own cleanup.
			t.Cleanup(func() {
				if err := rt.Close(context.Background()); err != nil {
					t.Errorf("cannot clear the runtime: %v", err)
				}
			})
			test(t, NewNode(t, rt))
		})
	}
}

var nodes atomic.Int64

// nodeName returns a node name that no other test uses.
func nodeName() string { return fmt.Sprintf("n%d", nodes.Add(1)) }
