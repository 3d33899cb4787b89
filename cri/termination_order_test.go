package cri_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// sidecar starts a sidecar with an index, in addition to the pod's containers.
func (b *syncerHarness) sidecar(name string, index int, preStop *v1.LifecycleHandler) {
	b.t.Helper()
	a, ok := b.fake.Newest("a")
	if !ok {
		b.t.Fatal("the pod does not run")
	}
	annotations := map[string]string{cri.AnnotationSidecar: strconv.Itoa(index)}
	if preStop != nil {
		hook, err := json.Marshal(preStop)
		if err != nil {
			b.t.Fatal(err)
		}
		annotations[cri.AnnotationPreStop] = string(hook)
	}
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: a.Config.Image,
		Labels: map[string]string{
			cri.LabelPodUID: "uid-1", cri.LabelInstance: critest.Instance, cri.LabelContainerName: name,
			cri.LabelPodName: "web-node", cri.LabelPodNamespace: "default",
		},
		Annotations: annotations,
	}
	id, err := b.client.CreateContainer(b.t.Context(), a.SandboxID, config, b.fake.Sandboxes()[0].Config)
	if err == nil {
		err = b.client.StartContainer(b.t.Context(), id)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// ends returns when the newest instance of a container exited, relative to
// begun.
func (b *syncerHarness) ends(name string, begun time.Time) time.Duration {
	c, _ := b.fake.Newest(name)
	return c.FinishedAt.Sub(begun).Round(time.Second)
}

// Regular containers stop first, then sidecars in reverse order, within the
// grace period; a sidecar's hook runs at the beginning.
func TestKillTerminatesSidecarsLast(t *testing.T) {
	for name, c := range map[string]struct {
		grace        int64
		behave       map[string]critest.Behaviour
		a, b, s0, s1 time.Duration
	}{
		"in reverse order": {
			30, map[string]critest.Behaviour{"a": {StopAfter: 5 * time.Second}, "b": {StopAfter: 2 * time.Second},
				"s1": {StopAfter: 3 * time.Second}},
			5 * time.Second, 2 * time.Second, 8 * time.Second, 8 * time.Second,
		},
		"wait is deducted": {
			10, map[string]critest.Behaviour{"a": {StopAfter: 5 * time.Second}, "s1": {IgnoreTerm: true},
				"s0": {IgnoreTerm: true}},
			5 * time.Second, 0, 12 * time.Second, 10 * time.Second,
		},
		"no turn, minimum grace": {
			10, map[string]critest.Behaviour{"a": {IgnoreTerm: true}, "s1": {IgnoreTerm: true}, "s0": {IgnoreTerm: true}},
			10 * time.Second, 0, 12 * time.Second, 12 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
				b.settle()
				b.sidecar("s0", 0, nap(1))
				b.sidecar("s1", 1, nil)
				for name, behaviour := range c.behave {
					b.fake.Behave(name, behaviour)
				}
				begun := time.Now()
				if err := b.kill(c.grace); err != nil {
					t.Fatal(err)
				}
				for name, want := range map[string]time.Duration{"a": c.a, "b": c.b, "s0": c.s0, "s1": c.s1} {
					if got := b.ends(name, begun); got != want {
						t.Errorf("%s ended after %s, want %s", name, got, want)
					}
				}
				b.hooks.did(t, "s0 sleep")
				if b.fake.Ready() != 0 {
					t.Error("the sandbox was not stopped")
				}
			})
		})
	}
}

// A sidecar keeps running while stopping a container that it serves fails.
func TestKillKeepsSidecarsOfRunningContainers(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.sidecar("s0", 0, nil)
		b.fake.Inject("StopContainer", critest.Fault{Container: "a", Before: critest.Err(codes.Unknown, "busy")})
		begun := time.Now()
		if err := b.kill(30); err == nil || time.Since(begun) > time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		b.runs("a", "s0")
		if err := b.kill(30); err != nil || b.fake.Running() != 0 {
			t.Errorf("again: %v", errors.Join(err))
		}
	})
}
