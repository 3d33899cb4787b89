package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
)

// waitStarted runs WaitStarted until it returns and gives one line per pod.
func waitStarted(d *daemon, limit time.Duration) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var lines []string
	err := d.WaitStarted(ctx, func(pod *v1.Pod, err error) {
		line := pod.Name + " ok"
		if err != nil {
			line = pod.Name + " " + err.Error()
		}
		lines = append(lines, line)
	})
	slices.Sort(lines)
	return lines, err
}

func TestAwaitSources(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start(manifest.SourceFile, manifest.SourceHTTP)
		d.config.deliver(manifest.SourceFile, testPod("web", "u1", "r1"))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.WaitSourcesReady(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one source has not delivered: %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			d.config.restore(manifest.SourceHTTP, testPod("late", "u2", "r1"))
		}()
		if err := d.WaitSourcesReady(t.Context()); err != nil || len(d.Pods()) != 2 {
			t.Errorf("%d pods: %v", len(d.Pods()), err)
		}
	})
}

func TestWaitStarted(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Latency("*", 50*time.Millisecond)
		b.fake.Behave("job/app", critest.Behaviour{RunFor: 10 * time.Second})
		d := b.start(manifest.SourceFile, manifest.SourceHTTP)
		job := testPod("job", "uj", "r1")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		d.config.deliver(manifest.SourceFile, testPod("web", "u1", "r1"), job)
		go func() {
			time.Sleep(20 * time.Second)
			d.config.restore(manifest.SourceHTTP, testPod("late", "u2", "r1"))
		}()
		at := time.Now()
		lines, err := waitStarted(d, time.Minute)
		if want := "job ok\nlate ok\nweb ok"; err != nil || strings.Join(lines, "\n") != want {
			t.Errorf("%v\n%s", err, strings.Join(lines, "\n"))
		}
		if took := time.Since(at); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("took %s, the last source delivered after 20s", took)
		}
	})
}

// A container has not started before its postStart hook has returned and its
// startup probe has succeeded.
func TestWaitStartedWaitsForHooksAndProbes(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		a.fail("start", true)
		b.fake.Latency("ExecSync", 3*time.Second)
		d := b.start()
		hooked := testPod("hooked", "uh", "r1")
		hooked.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHook("hook")}
		probed := testPod("probed", "up", "r1")
		probed.Spec.Containers[0].StartupProbe = execProbe(1, 100, "start")
		d.config.deliver(manifest.SourceFile, hooked, probed)
		at := time.Now()
		go func() {
			time.Sleep(30 * time.Second)
			a.fail("start", false)
		}()
		took := map[string]time.Duration{}
		if err := d.WaitStarted(t.Context(), func(pod *v1.Pod, _ error) { took[pod.Name] = time.Since(at) }); err != nil {
			t.Error(err)
		}
		if took["hooked"] < 3*time.Second || took["hooked"] > 10*time.Second || took["probed"] < 30*time.Second ||
			took["probed"] > 40*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestWaitStartedReportsFailures(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		b.fake.SetPullable()
		b.fake.Behave("crash/app", critest.Behaviour{ExitAtOnce: true, ExitCode: 3})
		b.fake.Behave("failed/app", critest.Behaviour{ExitAtOnce: true, ExitCode: 4})
		b.fake.Put(critest.Pod{UID: "foreign", Name: "taken", Namespace: "default", Containers: []string{"x"}})
		d := b.start()
		failed := testPod("failed", "uf", "r1")
		failed.Spec.RestartPolicy = v1.RestartPolicyNever
		image := testPod("image", "ui", "r1")
		image.Spec.Containers[0].Image = "nowhere:1"
		d.config.deliver(file, testPod("web", "u1", "r1"), testPod("crash", "uc", "r1"), testPod("taken", "ut", "r1"), failed,
			image)
		lines, err := waitStarted(d, 5*time.Minute)
		if !errors.Is(err, ErrNotStarted) || len(lines) != 5 {
			t.Fatalf("%v\n%s", err, strings.Join(lines, "\n"))
		}
		for i, want := range []string{"CrashLoopBackOff", "code 4", "ImagePullBackOff", "crictl stopp", "web ok"} {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%q does not contain %s", lines[i], want)
			}
		}
	})
}

func TestWaitStartedGivesUpWithItsContext(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetNetworkReady("no CNI yet") // cancelled at any time
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		lines, err := waitStarted(d, 30*time.Second)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrNotStarted) ||
			!strings.Contains(err.Error(), "default/web") || len(lines) != 0 {
			t.Errorf("%v %v", lines, err)
		}
	})
}

func TestSyncLoopHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSupervisorHarness(t, true)
		d := b.start()
		synctest.Wait()
		b.after(time.Hour)
		if err := d.SyncLoopHealthy(); err != nil {
			t.Errorf("idle loop: %v", err)
		}
		d.loop.set(true, time.Now())
		b.after(loopTimeout + time.Second)
		if d.SyncLoopHealthy() == nil {
			t.Error("a loop that is busy for minutes is reported as healthy")
		}
		b.kill()
		if d.SyncLoopHealthy() == nil {
			t.Error("a loop that has ended is reported as healthy")
		}
	})
}

// The first errors of the runtime are not the end of a pod that starts with the next attempt.
func TestWaitStartedAfterSandboxErrors(t *testing.T) {
	for name, c := range map[string]struct {
		times int
		want  string
	}{
		"transient": {2, "web ok"},
		"permanent": {-1, "web pod default/web cannot start: "},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				b.fake.Inject("RunPodSandbox", critest.Fault{Before: errors.New("the network is not set up yet"), Times: c.times})
				d := b.start(manifest.SourceFile)
				d.config.deliver(manifest.SourceFile, testPod("web", "u1", "r1"))
				lines, err := waitStarted(d, 5*time.Minute)
				if len(lines) != 1 || !strings.HasPrefix(lines[0], c.want) || (err == nil) != (c.times > 0) {
					t.Errorf("%q, %v; want %q", lines, err, c.want)
				}
			})
		})
	}
}
