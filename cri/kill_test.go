package cri_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// kill observes and terminates the pod.
func (b *syncerHarness) kill(grace int64) error {
	b.t.Helper()
	status, err := b.client.PodStatus(b.t.Context(), b.pod.UID)
	if err != nil {
		return err
	}
	return b.syncer.Kill(b.t.Context(),
		cri.KillRequest{Pod: b.pod, Observed: status.Pod(), Grace: grace, Reason: "its manifest was removed"})
}

func TestKillTerminatesInParallel(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b", "c"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Behave("*", critest.Behaviour{IgnoreTerm: true})
		b.fake.Behave("c", critest.Behaviour{StopAfter: 3 * time.Second})
		begun := time.Now()
		if err := b.kill(10); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("took %s, want the grace of 10 s once", took)
		}
		if b.fake.Running() != 0 || b.fake.Ready() != 0 {
			t.Errorf("something still runs\n%s", b.fake.Dump())
		}
		if c, _ := b.fake.Newest("c"); c.ExitCode != 0 {
			t.Errorf("c was killed although it had time: %+v", c)
		}
		if !b.events.has("Killing: Stopping container a: its manifest was removed") {
			t.Errorf("events %q", b.events.list)
		}
		if err := b.kill(10); err != nil {
			t.Errorf("a second time: %v", err)
		}
	})
}

func TestKillGraceHasAFloor(t *testing.T) {
	for _, grace := range []int64{-5, 0, 1} {
		withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
			b.settle()
			b.fake.Behave("a", critest.Behaviour{StopAfter: 1900 * time.Millisecond})
			if err := b.kill(grace); err != nil {
				t.Fatal(err)
			}
			if a, _ := b.fake.Newest("a"); a.ExitCode != 0 {
				t.Errorf("grace %d: a did not get 2 s: %+v", grace, a)
			}
		})
	}
}

func TestKillWithoutPod(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		all, err := b.client.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.syncer.Kill(t.Context(), cri.KillRequest{Observed: all.Own[0], Grace: 1}); err != nil {
			t.Fatal(err)
		}
		if b.fake.Running() != 0 || b.fake.Ready() != 0 {
			t.Errorf("something still runs\n%s", b.fake.Dump())
		}
		if !b.events.has("Killing: Stopping container a") {
			t.Errorf("events %q", b.events.list)
		}
	})
}

// When the runtime rejects a stop at once, the sandbox must not be stopped, as
// that would kill containers that have had no grace period.
func TestKillDoesNotCutGraceShort(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Inject("StopContainer", critest.Fault{Container: "a", Before: critest.Err(codes.Unavailable, "busy")})
		err := b.kill(10)
		if !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if b.fake.Calls("StopPodSandbox") != 0 {
			t.Error("the sandbox was stopped")
		}
		b.runs("a")
		if err := b.kill(10); err != nil || b.fake.Running() != 0 {
			t.Errorf("again: %v", err)
		}
		if a, _ := b.fake.Newest("a"); a.ExitCode != 0 {
			t.Errorf("a was killed: %+v", a)
		}
	})
}

// A stop call that never returns is bounded; after that, stopping the sandbox
// terminates the container.
func TestKillOfAHangingStop(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Inject("StopContainer", critest.Fault{Hang: true})
		begun := time.Now()
		err := b.kill(10)
		if !errors.Is(err, cri.ErrTimeout) || time.Since(begun) > 10*time.Second+cri.DefaultRequestTimeout+time.Second {
			t.Errorf("got %v after %s", err, time.Since(begun))
		}
		if b.fake.Running() != 0 {
			t.Errorf("it still runs\n%s", b.fake.Dump())
		}
	})
}

// A container whose AppArmor profile receives no signals cannot be stopped: the error reports
// what the profile lacks.
func TestKillOfAContainerThatReceivesNoSignals(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Inject("StopContainer", critest.Fault{Before: errors.New("unknown error after kill: runc did not terminate " +
			"successfully: exit status 1: unable to signal init: permission denied")})
		if err := b.kill(10); err == nil || !strings.Contains(err.Error(), "signal (receive)") {
			t.Errorf("got %v", err)
		}
		b.fake.Inject("StopContainer", critest.Fault{Before: errors.New("open /run/x: permission denied")})
		if err := b.kill(10); err == nil || strings.Contains(err.Error(), "signal (receive)") {
			t.Errorf("got %v", err)
		}
		if err := b.kill(10); err != nil || b.fake.Running() != 0 {
			t.Errorf("again: %v", err)
		}
	})
}

func TestRemove(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		if err := b.kill(1); err != nil {
			t.Fatal(err)
		}
		status := b.observe()
		b.fake.Inject("RemoveContainer", critest.Fault{Container: "a", Before: errors.New("busy")})
		if err := b.syncer.Remove(t.Context(), status.Pod()); err == nil || len(b.fake.Sandboxes()) != 1 {
			t.Errorf("got %v and %d sandboxes, want an error and the sandbox of the remaining container", err,
				len(b.fake.Sandboxes()))
		}
		for range 2 {
			if err := b.syncer.Remove(t.Context(), status.Pod()); err != nil {
				t.Fatal(err)
			}
		}
		if len(b.fake.Sandboxes())+len(b.fake.Containers()) != 0 {
			t.Errorf("left:\n%s", b.fake.Dump())
		}
		calls := slices.DeleteFunc(b.fake.Writes(), func(c critest.Call) bool { return c.Method != "RemovePodSandbox" })
		if len(calls) != 2 {
			t.Errorf("%d removals of the sandbox", len(calls))
		}
	})
}
