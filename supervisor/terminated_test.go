package supervisor

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
)

// wipe removes everything from the runtime.
func (b *supervisorHarness) wipe() {
	b.t.Helper()
	client := b.fake.Client(b.t)
	for _, s := range b.fake.Sandboxes() {
		if err := client.RemovePodSandbox(b.t.Context(), s.ID); err != nil {
			b.t.Fatal(err)
		}
	}
}

// The terminal phase is recorded before anything else is done about it: a
// daemon that was killed in between, with a runtime that was wiped, does not
// run the pod again.
func TestEndIsSavedFirst(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("job", "job", "r1")
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		b.fake.Behave("job/app", critest.Behaviour{RunFor: 10 * time.Second})
		hangs := b.fake.Inject("StopPodSandbox", critest.Fault{Hang: true, Times: -1})
		b.start().config.deliver(manifest.SourceFile, pod)
		b.until(time.Minute, "it has ended", func() bool { return b.daemon.status("job").Phase == v1.PodSucceeded })
		b.kill()
		hangs.Remove()
		b.wipe()
		b.restart(pod)
		b.after(2 * time.Minute)
		if st := b.daemon.status("job"); st.Phase != v1.PodSucceeded || b.fake.Starts("job", "app") != 1 ||
			b.running("job") != 0 {
			t.Errorf("%+v\n%s", st, b.fake.Dump())
		}
	})
}

// stuckCgroups do not update the cgroup of a pod that has one until the sync ends.
type stuckCgroups struct{ *fakeCgroups }

func (s stuckCgroups) Ensure(ctx context.Context, pod *v1.Pod, parent string) (string, error) {
	if parent != "" {
		<-ctx.Done()
	}
	return s.fakeCgroups.Ensure(ctx, pod, parent)
}

// That a container runs is recorded before the status shows it: a daemon that was killed in
// between, with a runtime that was wiped, does not run a pod again that must run only once.
func TestRunIsSavedBeforeItIsShown(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("job", "job", "r1")
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		b.cgroups = stuckCgroups{newFakeCgroups()}
		b.start().config.deliver(manifest.SourceFile, pod)
		b.until(time.Minute, "it is shown as running", func() bool { return b.daemon.status("job").Phase == v1.PodRunning })
		b.sigkill()
		b.wipe()
		b.cgroups = newFakeCgroups()
		b.restart(pod)
		b.after(2 * time.Minute)
		if st := b.daemon.status("job"); st.Phase != v1.PodFailed || b.fake.Starts("job", "app") != 1 {
			t.Errorf("%+v\n%s", st, b.fake.Dump())
		}
	})
}

// A pod's sandbox is stopped once, however the pod terminates.
func TestSandboxIsStoppedOnce(t *testing.T) {
	for name, end := range map[string]func(b *supervisorHarness){
		"removed":  func(b *supervisorHarness) { b.daemon.config.deliver(manifest.SourceFile) },
		"finished": func(b *supervisorHarness) { b.fake.Exit("job/app", 0) },
		"replaced": func(b *supervisorHarness) { b.daemon.config.deliver(manifest.SourceFile, testPod("job", "next", "r2")) },
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				pod := testPod("job", "job", "r1")
				pod.Spec.RestartPolicy = v1.RestartPolicyNever
				b.start().config.deliver(manifest.SourceFile, pod)
				b.runs("job")
				end(b)
				b.after(5 * time.Minute)
				if n := b.fake.Calls("StopPodSandbox"); n != 1 || b.running("job") != 0 {
					t.Errorf("stopped %d times", n)
				}
			})
		})
	}
}
