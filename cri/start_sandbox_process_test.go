package cri_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/critest"
)

const noSandboxProcess = "failed to create containerd task: OCI runtime create failed: unable to create new parent " +
	"process: namespace path: lstat /proc/0/ns/ipc: no such file or directory: unknown"

// A container that was created while the runtime did not know the process of its sandbox
// is replaced at once, and counts neither as a restart nor for the back-off.
func TestStartWithoutSandboxProcess(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
		b.fake.Behave("a", critest.Behaviour{StartError: noSandboxProcess, FailedStarts: 1})
		if r := b.sync(); r.Err != nil {
			t.Errorf("got %+v", r)
		}
		b.settle()
		b.runs("a", "b")
		if a, _ := b.fake.Newest("a"); a.Config.Metadata.Attempt != 0 {
			t.Errorf("a is number %d, want 0", a.Config.Metadata.Attempt)
		}
		if n := len(b.fake.Containers()); n != 2 {
			t.Errorf("%d containers are left, want 2\n%s", n, b.fake.Dump())
		}

		b.fake.Kill("a")
		b.fake.Behave("a", critest.Behaviour{StartError: noSandboxProcess, FailedStarts: 1})
		b.settle()
		b.runs("a", "b")
		if a, _ := b.fake.Newest("a"); a.Config.Metadata.Attempt != 1 {
			t.Errorf("a is number %d, want 1", a.Config.Metadata.Attempt)
		}
		for key, step := range b.syncer.Backoff().Steps(b.pod.UID) {
			if step.Delay.Seconds() != 10 {
				t.Errorf("the back-off of %s is %v, want 10s: one restart", key, step.Delay)
			}
		}
	})
}

// A runtime that never knows the process: the failure is reported, and retried without a
// restart count.
func TestStartNeverFindsSandboxProcess(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.fake.Behave("a", critest.Behaviour{StartError: noSandboxProcess, FailedStarts: 9})
		if r := b.sync(); r.Err == nil || r.Waiting["a"].Reason != "RunContainerError" {
			t.Errorf("got %+v", r)
		}
		if !b.events.has(`Failed: Error: failed to start containerd task "a"`) {
			t.Errorf("no event in %q", b.events.list)
		}
		b.settle()
		b.runs("a")
		if a, _ := b.fake.Newest("a"); a.Config.Metadata.Attempt != 0 {
			t.Errorf("a is number %d, want 0", a.Config.Metadata.Attempt)
		}

		b.fake.Kill("a")
		b.fake.Behave("a", critest.Behaviour{StartError: noSandboxProcess, FailedStarts: 9})
		b.results = nil
		b.settle()
		b.runs("a")
		for _, r := range b.results {
			if w := r.Waiting["a"]; w.Reason == "CrashLoopBackOff" {
				t.Errorf("a waits before it is restarted for the first time: %+v", w)
			}
		}
		steps := b.syncer.Backoff().Steps(b.pod.UID)
		if len(steps) != 1 {
			t.Errorf("back-off %v, want one step", steps)
		}
		for key, step := range steps {
			if step.Delay.Seconds() != 10 {
				t.Errorf("the back-off of %s is %v, want 10s: one restart", key, step.Delay)
			}
		}
	})
}

// An instance that an earlier daemon created and did not start counts as little.
func TestStartCreatedWithoutSandboxProcess(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Kill("a")
		b.fake.Inject("StartContainer", critest.Fault{Before: critest.Err(codes.Unavailable, "lost"), Times: 1})
		b.fake.Behave("a", critest.Behaviour{StartError: noSandboxProcess, FailedStarts: 1})
		b.sync()
		if a, _ := b.fake.Newest("a"); a.State != runtimeapi.ContainerState_CONTAINER_CREATED {
			t.Fatalf("a is %v, want created", a.State)
		}
		b.restart() // without the steps of the back-off
		b.settle()
		b.runs("a")
		for key, step := range b.syncer.Backoff().Steps(b.pod.UID) {
			if step.Delay.Seconds() != 10 {
				t.Errorf("the back-off of %s is %v, want 10s: one restart", key, step.Delay)
			}
		}
	})
}
