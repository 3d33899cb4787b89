package cri_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// The remains of another podstead's pod have the names of the first attempts.
func TestNamesOfAnotherPodsteadsDeadPod(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
		b.fake.Put(critest.Pod{UID: "uid-1", Name: "web-node", Namespace: "default", Instance: "other",
			Containers: []string{"a"}})
		b.fake.StopPod("uid-1")
		if r := b.settle(); r.Err != nil {
			t.Fatal(r.Err)
		}
		b.runs("a", "b")
		status := b.observe()
		if len(status.Sandboxes) != 1 || status.Sandboxes[0].Attempt != 1 {
			t.Errorf("sandboxes %+v, want one with attempt 1", status.Sandboxes)
		}
		for _, name := range []string{"a", "b"} {
			if c := status.Newest(name); c.RestartCount != 0 {
				t.Errorf("container %s has restart count %d, want 0", name, c.RestartCount)
			}
		}
	})
}

// A running pod of another client is named, and left alone.
func TestNamesOfAnotherClientsRunningPod(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.fake.Put(critest.Pod{UID: "uid-1", Name: "web-node", Namespace: "default", Instance: "other",
			Containers: []string{"a"}})
		for range 10 {
			b.sync()
		}
		r := b.results[0]
		if w := r.Waiting[""]; r.Err == nil ||
			!strings.Contains(w.Message, "another client of the runtime runs (UID uid-1)") {
			t.Errorf("got %+v", r)
		}
		if got := b.observe(); len(got.Sandboxes) > 0 {
			t.Errorf("sandboxes %+v", got.Sandboxes)
		}
	})
}

// A name that stays reserved for a sandbox which no list shows is given up.
func TestNameOfASandboxThatIsNotListed(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.fake.Inject("RunPodSandbox",
			critest.Fault{Times: 5, Before: critest.Err(codes.Unknown,
				`failed to reserve sandbox name "x": name "x" is reserved for "y"`)})
		b.settle()
		b.runs("a")
		if got := b.observe().Sandboxes; len(got) != 1 || got[0].Attempt != 1 {
			t.Errorf("sandboxes %+v, want one with attempt 1", got)
		}
	})
}

// A dead sandbox whose stop fails forever keeps no pod down. One with a process does.
func TestStopThatNeverSucceeds(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Inject("StopPodSandbox", critest.Fault{Times: -1, Before: errors.New("unexpected end of JSON input")})
		b.fake.KillSandboxes("web-node")
		r := b.sync()
		if w := r.Waiting[""]; r.Err == nil || w.Reason != "KillPodSandboxError" ||
			!strings.Contains(w.Message, "unexpected end of JSON input") {
			t.Errorf("after the first failure: %+v", r)
		}
		if !b.events.has("FailedKillPod: error killing pod: ") {
			t.Errorf("no event in %q", b.events.list)
		}
		b.settle()
		b.runs("a")
		status := b.observe()
		if len(status.Sandboxes) != 2 || !status.Sandboxes[0].Ready || status.Sandboxes[0].Attempt != 1 {
			t.Errorf("sandboxes %+v", status.Sandboxes)
		}
		// The present sandbox has a process.
		for range 5 {
			if err := b.syncer.Kill(t.Context(),
				cri.KillRequest{Pod: b.pod, Observed: b.observe().Pod(), Grace: 1}); err == nil {
				t.Fatal("a sandbox that is ready counts as stopped")
			}
		}
	})
}
