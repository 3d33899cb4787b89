package supervisor

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

func execHook(command ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: command}}
}

// hanging makes the command "hang" run until it is cancelled.
func hanging(f *critest.Fake) {
	f.OnExec(func(ctx context.Context, _ critest.Container, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse,
		error) {
		if r.Cmd[0] == "hang" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &runtimeapi.ExecSyncResponse{}, nil
	})
}

// A hook that hangs delays its own pod only, shows it as not started, keeps its
// probes from running, and ends with the pod at once.
func TestHookThatHangs(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		hanging(b.fake)
		pod := probedPod("stuck", "stuck")
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHook("hang")}
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.until(time.Minute, "its container runs", func() bool { return b.running("stuck") == 1 })
		d.config.deliver(manifest.SourceFile, pod, testPod("other", "other", "r1"))
		if took := b.runs("other"); took > 3*time.Second {
			t.Errorf("the other pod took %s", took)
		}
		b.after(time.Minute)
		if c := d.appStatus("stuck"); c.State.Running == nil || c.Ready || c.Started == nil || *c.Started ||
			c.RestartCount != 0 {
			t.Errorf("shown as %+v", c)
		}
		begun := time.Now()
		d.config.deliver(manifest.SourceFile)
		b.gone("stuck")
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("ended after %s", took)
		}
	})
}

// A shorter grace period cancels a hook that hangs, and shortens the remaining
// time.
func TestDeletionShortensAHook(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		hanging(b.fake)
		pod := testPod("web", "web", "r1")
		hour := int64(3600)
		pod.Spec.TerminationGracePeriodSeconds = &hour
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: execHook("hang")}
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.runs("web")
		d.config.deliver(manifest.SourceFile)
		b.after(time.Minute)
		if b.running("web") != 1 {
			t.Fatal("it did not wait for its hook")
		}
		begun := time.Now()
		d.workers.DisruptWithin("web", status.Disruption{Reason: "Hurry"}, 4)
		b.gone("web")
		if took := time.Since(begun); took < 4*time.Second || took > 7*time.Second {
			t.Errorf("ended %s after the second decision, want 4 s", took)
		}
	})
}

// A container whose hook is known to have returned keeps its readiness over a
// restart; without a record, a running container counts as started.
func TestHooksOverARestart(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		ran := 0
		b.fake.OnExec(func(context.Context, critest.Container, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse,
			error) {
			ran++
			return &runtimeapi.ExecSyncResponse{}, nil
		})
		pod := testPod("web", "web", "r1")
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHook("once")}
		b.start().config.deliver(manifest.SourceFile, pod)
		b.runs("web")
		b.restart(pod)
		b.runs("web")
		b.after(2 * time.Minute)
		if err := b.daemon.cfg.Store.Records.Delete("web"); err != nil {
			t.Fatal(err)
		}
		b.restart(pod)
		b.runs("web")
		b.after(2 * time.Minute)
		if c := b.daemon.appStatus("web"); ran != 1 || !c.Ready || b.fake.Starts("web", "app") != 1 {
			t.Errorf("the hook ran %d times; %+v", ran, c)
		}
	})
}

// A hook of a container that has exited is cancelled: the container starts
// again, or the pod terminates, without waiting for it.
func TestHookOfADeadContainer(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		hanging(b.fake)
		begins, ends := testPod("begins", "begins", "r1"), testPod("ends", "ends", "r1")
		hour := int64(3600)
		ends.Spec.TerminationGracePeriodSeconds = &hour
		begins.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHook("hang")}
		ends.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: execHook("hang")}
		d := b.start()
		d.config.deliver(manifest.SourceFile, begins, ends)
		b.runs("ends")
		b.until(time.Minute, "the other one runs", func() bool { return b.running("begins") == 1 })
		b.fake.Kill("begins/app")
		b.until(5*time.Second, "it starts again", func() bool { return b.fake.Starts("begins", "app") == 2 })
		b.until(5*time.Second, "its end is shown", func() bool {
			end := d.appStatus("begins").LastTerminationState.Terminated
			return end != nil && end.ExitCode == 137
		})
		d.config.deliver(manifest.SourceFile, begins)
		b.after(time.Minute)
		if b.running("ends") != 1 {
			t.Fatal("it did not wait for its hook")
		}
		b.fake.Exit("ends/app", 0)
		begun := time.Now()
		b.gone("ends")
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("ended %s after its container", took)
		}
	})
}
