package supervisor

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
)

func priorityPod(name string, priority int32) *v1.Pod {
	pod := testPod(name, types.UID("u-"+name), "1")
	pod.Spec.Priority = &priority
	return pod
}

// isReady returns the condition Ready of a status.
func isReady(st v1.PodStatus) v1.ConditionStatus {
	for i := range st.Conditions {
		if st.Conditions[i].Type == v1.PodReady {
			return st.Conditions[i].Status
		}
	}
	return v1.ConditionUnknown
}

// shutDown terminates all pods as a node shutdown does, and waits until they
// have terminated.
func (b *supervisorHarness) shutDown(d *daemon, grace time.Duration) {
	b.t.Helper()
	d.BeginShutdown()
	uids := slices.Collect(maps.Keys(d.RunningPriorities()))
	d.EndForShutdown(uids, grace)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := d.WaitAllEnded(ctx, uids); err != nil {
		b.t.Fatalf("pods did not end: %v", err)
	}
	synctest.Wait()
}

// A pod that terminates for a shutdown is not ready before any container of it
// is stopped, gets the shorter of two grace periods, and leaves no sandbox. New
// pods are held. After the boot it runs again, with one more restart.
func TestShutdownAndBoot(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		short, long, critical := priorityPod("short", 0), priorityPod("long", 1), priorityPod("critical", 2_000_000_000)
		two := int64(2)
		short.Spec.TerminationGracePeriodSeconds = &two
		d.config.deliver(manifest.SourceFile, short, long, critical)
		for _, pod := range []*v1.Pod{short, long, critical} {
			b.runs(pod.UID)
		}
		if live := d.RunningPriorities(); len(live) != 3 || live[critical.UID] != 2_000_000_000 || live[long.UID] != 1 {
			t.Errorf("live: %v", live)
		}

		b.fake.Behave("*", critest.Behaviour{IgnoreTerm: true})
		stopping := b.fake.Inject("StopContainer", critest.Fault{Hang: true, Times: 2})
		begun := time.Now()
		d.BeginShutdown()
		if rt := d.Runtime(); rt.NotReady != "node is shutting down" || !rt.Since.Equal(begun) {
			t.Errorf("the node: %+v", rt)
		}
		d.EndForShutdown([]types.UID{short.UID, long.UID}, 10*time.Second)
		<-stopping.Reached()
		synctest.Wait()
		for _, pod := range []*v1.Pod{short, long} {
			st := d.status(pod.UID)
			if c := condition(st, v1.DisruptionTarget); c == nil || isReady(st) != v1.ConditionFalse ||
				st.Phase != v1.PodRunning {
				t.Errorf("before it is stopped: %+v", st)
			}
		}
		if st := d.status(critical.UID); isReady(st) != v1.ConditionTrue {
			t.Errorf("a pod that does not terminate yet: %+v", st)
		}
		stopping.Release()
		fresh := testPod("fresh", "u-fresh", "1")
		d.config.deliver(manifest.SourceFile, short, long, critical, fresh)
		b.until(time.Second, "a new pod is held", func() bool {
			st := d.status(fresh.UID)
			return st.Phase == v1.PodPending && st.Reason == "NodeShutdown" && b.running(fresh.UID) == 0
		})
		for _, c := range []struct {
			uid  types.UID
			want time.Duration
		}{{short.UID, 2 * time.Second}, {long.UID, 10 * time.Second}} {
			if err := d.WaitAllEnded(t.Context(), []types.UID{c.uid}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took < c.want || took > c.want+time.Second {
				t.Errorf("%s ended after %s, want %s", c.uid, took, c.want)
			}
			if st := d.status(c.uid); st.Phase != v1.PodFailed || st.Reason != "Terminated" {
				t.Errorf("after it has ended: %+v", st)
			}
		}
		b.fake.Behave("*", critest.Behaviour{})
		b.shutDown(d, time.Second)
		if b.fake.Running()+b.fake.Ready() != 0 {
			t.Errorf("something is left:\n%s", b.fake.Dump())
		}
		b.after(5 * time.Minute)
		if b.fake.Running() != 0 {
			t.Errorf("something runs before the boot:\n%s", b.fake.Dump())
		}

		b.kill()
		b.fake.Reboot()
		d = b.start()
		d.config.deliver(manifest.SourceFile, short, long, critical, fresh)
		for _, pod := range []*v1.Pod{short, long, critical, fresh} {
			b.runs(pod.UID)
			b.until(time.Second, "it is ready", func() bool { return isReady(d.status(pod.UID)) == v1.ConditionTrue })
			want := int32(1)
			if pod == fresh {
				want = 0
			}
			st := d.status(pod.UID)
			if st.ContainerStatuses[0].RestartCount != want || isReady(st) != v1.ConditionTrue || st.Reason != "" {
				t.Errorf("%s after the boot: %+v", pod.Name, st)
			}
			// The previous run must be shown so that its logs can
			// be read.
			if before := st.ContainerStatuses[0].LastTerminationState.Terminated; pod != fresh && before == nil {
				t.Errorf("%s after the boot shows nothing of the previous run", pod.Name)
			}
		}
		// Only the daemon restarts: no pod is terminated for the old
		// shutdown.
		d = b.restart(short, long, critical, fresh)
		b.after(time.Minute)
		if n := d.status(long.UID).ContainerStatuses[0].RestartCount; n != 1 || b.fake.Running() != 4 {
			t.Errorf("after a restart of the daemon: %d restarts, %d containers", n, b.fake.Running())
		}
	})
}

// After the boot the pods of the highest priority start first, and one that
// cannot start does not delay the others for long.
func TestRestartInOrderOfPriority(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pods := []*v1.Pod{priorityPod("a", 0), priorityPod("b", 1000), priorityPod("c", 2_000_000_000)}
		d := b.start()
		d.config.deliver(manifest.SourceFile, pods...)
		for _, pod := range pods {
			b.runs(pod.UID)
		}
		b.shutDown(d, time.Second)
		b.kill()
		b.fake.Reboot()
		b.fake.Latency("StartContainer", 2*time.Second)
		d = b.start()
		begun := time.Now()
		d.config.deliver(manifest.SourceFile, pods...)
		var started []time.Duration
		for _, pod := range []*v1.Pod{pods[2], pods[1], pods[0]} {
			b.runs(pod.UID)
			started = append(started, time.Since(begun))
		}
		if started[1]-started[0] < 2*time.Second || started[2]-started[1] < 2*time.Second || started[2] > 8*time.Second {
			t.Errorf("started after %v, want one after the other, each taking 2s", started)
		}
		// The same again, with a first pod that hangs.
		b.shutDown(d, time.Second)
		b.kill()
		b.fake.Reboot()
		b.fake.Latency("StartContainer", 0)
		hang := b.fake.Inject("RunPodSandbox", critest.Fault{Pod: "c", Hang: true, Times: -1})
		defer hang.Remove()
		d = b.start()
		begun = time.Now()
		d.config.deliver(manifest.SourceFile, pods...)
		b.runs(pods[0].UID)
		if took := time.Since(begun); took < restartOrderTimeout || took > restartOrderTimeout+2*time.Second {
			t.Errorf("started %s after a pod that hangs, want %s", took, restartOrderTimeout)
		}
		b.runs(pods[1].UID)
		d.config.deliver(manifest.SourceFile)
		b.gone(pods[0].UID)
	})
}

// Jobs that a shutdown interrupts: a job that may be restarted is, even if it
// exited with 0 when it was stopped; one that may not is not. A job that had
// terminated before is not touched.
func TestShutdownOfJobs(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		retried, never, done := testPod("retried", "u-retried", "1"), testPod("never", "u-never", "1"),
			testPod("done", "u-done", "1")
		retried.Spec.RestartPolicy, never.Spec.RestartPolicy, done.Spec.RestartPolicy = v1.RestartPolicyOnFailure,
			v1.RestartPolicyNever, v1.RestartPolicyOnFailure
		b.fake.Behave("done/app", critest.Behaviour{RunFor: time.Second})
		d := b.start()
		d.config.deliver(manifest.SourceFile, retried, never, done)
		b.runs(retried.UID)
		b.runs(never.UID)
		b.until(time.Minute, "a job is done", func() bool { return d.status(done.UID).Phase == v1.PodSucceeded })
		b.after(time.Minute)
		b.shutDown(d, time.Second)
		b.kill()
		b.fake.Reboot()
		for range 2 {
			d = b.restart(retried, never, done)
			b.runs(retried.UID)
			b.after(5 * time.Minute)
			if st := d.status(never.UID); st.Phase != v1.PodFailed || st.Reason != "Terminated" || b.running(never.UID) != 0 {
				t.Errorf("a pod that may not be restarted: %+v", st)
			}
			if st := d.status(done.UID); st.Phase != v1.PodSucceeded || b.running(done.UID) != 0 {
				t.Errorf("a finished job: %+v", st)
			}
		}
		// The user can restart it.
		if err := d.Restart(never.UID, "requested", time.Time{}); err != nil {
			t.Fatal(err)
		}
		b.runs(never.UID)
	})
}

// A cancelled shutdown restarts all pods, also those that are still terminating
// and those that were held. A pod that was terminating for another reason has a
// shorter grace period and does not restart.
func TestCancelledShutdown(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		ended, ending, removed, fresh := priorityPod("ended", 0), priorityPod("ending", 0), priorityPod("removed", 0),
			testPod("fresh", "u-fresh", "1")
		d := b.start()
		d.config.deliver(manifest.SourceFile, ended, ending, removed)
		for _, pod := range []*v1.Pod{ended, ending, removed} {
			b.runs(pod.UID)
		}
		b.fake.Behave("ending/app", critest.Behaviour{IgnoreTerm: true})
		b.fake.Behave("removed/app", critest.Behaviour{IgnoreTerm: true})
		d.config.deliver(manifest.SourceFile, ended, ending, fresh)
		b.runs(fresh.UID)
		d.config.deliver(manifest.SourceFile, ended, ending)
		b.gone(fresh.UID)
		begun := time.Now()
		d.BeginShutdown()
		d.config.deliver(manifest.SourceFile, ended, ending, fresh)
		d.EndForShutdown([]types.UID{ended.UID, ending.UID, removed.UID, "u-unknown"}, 5*time.Second)
		b.after(time.Second)
		if b.running(ended.UID) != 0 || b.running(ending.UID) != 1 || b.running(fresh.UID) != 0 {
			t.Errorf("in the shutdown:\n%s", b.fake.Dump())
		}
		d.CancelShutdown()
		if took := b.runs(ended.UID); took > time.Second {
			t.Errorf("it restarted after %s", took)
		}
		b.runs(fresh.UID)
		b.gone(removed.UID)
		if took := time.Since(begun); took > 8*time.Second {
			t.Errorf("the removed pod took %s, want 5s", took)
		}
		b.until(time.Minute, "the terminating pod runs again", func() bool {
			st := d.status(ending.UID)
			return b.running(ending.UID) == 1 && st.Phase == v1.PodRunning && st.ContainerStatuses[0].RestartCount == 1
		})
		if d.Runtime().NotReady != "" {
			t.Errorf("the node: %+v", d.Runtime())
		}
	})
}
