package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

var eviction = status.Disruption{Reason: "Evicted", Message: "The node was low on resource: memory.",
	Cause: "MemoryPressure", Signal: "memory.available"}

func isTarget(st v1.PodStatus) bool {
	return slices.ContainsFunc(st.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue &&
			c.Reason == v1.PodReasonTerminationByKubelet &&
			c.Message == eviction.Message && !c.LastTransitionTime.IsZero()
	})
}

// A disrupted pod is terminated and Failed until it may restart. Restarts of
// the daemon neither lose it nor run it earlier.
func TestDisruptedPodRestartsWhenAllowed(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("p", "u", "1")
		var may atomic.Bool
		var last atomic.Value
		b.returns = map[string]RestartPolicy{"Evicted": func(_ *v1.Pod, d status.Disruption) (bool, time.Duration) {
			last.Store(d)
			return may.Load(), 0
		}}
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.runs(pod.UID)
		at, grace := time.Now(), int64(1)
		if err := d.Disrupt(pod.UID, eviction, &grace); err != nil {
			t.Fatal(err)
		}
		if err := d.WaitEnded(context.Background(), pod.UID); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(at); b.running(pod.UID) != 0 || took > 5*time.Second {
			t.Errorf("%d containers run %s after the disruption", b.running(pod.UID), took)
		}
		waits := func(d *daemon) {
			t.Helper()
			synctest.Wait()
			if st := d.status(pod.UID); st.Phase != v1.PodFailed || st.Reason != "Evicted" || st.Message != eviction.Message ||
				!isTarget(st) {
				t.Errorf("status %+v", st)
			}
			if n := b.running(pod.UID); n != 0 {
				t.Errorf("%d containers run", n)
			}
		}
		ran := d.ran.Load()
		b.after(time.Hour)
		waits(d)
		if n := d.ran.Load() - ran; n > 5 {
			t.Errorf("%d syncs in an hour of waiting", n)
		}
		if err := d.Disrupt(pod.UID, eviction, &grace); !errors.Is(err, podworkers.ErrNotRunning) {
			t.Errorf("a pod that does not run was ended: %v", err)
		}
		if len(d.eventsOf(pod, "Evicted")) != 1 {
			t.Errorf("events %q", d.eventsOf(pod, "Evicted"))
		}
		for range 3 {
			d = b.restart(pod)
			b.after(time.Hour)
			waits(d)
		}
		if got, _ := last.Load().(status.Disruption); got.Cause != eviction.Cause || !got.At.Equal(at) {
			t.Errorf("policy of %+v, want the disruption of %s", got, at)
		}
		may.Store(true)
		d.RetryDisrupted()
		if took := b.runs(pod.UID); took > time.Second {
			t.Errorf("it ran %s after it was allowed to", took)
		}
		if st := d.status(pod.UID); isTarget(st) || st.Reason != "" || st.ContainerStatuses[0].RestartCount != 1 {
			t.Errorf("after its restart: %+v", st)
		}
		// A pod that runs again is not terminated by a restart of the
		// daemon.
		d = b.restart(pod)
		b.after(time.Minute)
		if st := d.status(pod.UID); b.running(pod.UID) != 1 || st.ContainerStatuses[0].RestartCount != 1 {
			t.Errorf("after a restart of the daemon: %+v", st)
		}
	})
}

// A disrupted pod is removed with its manifest, and its successor is another
// pod, which is not held.
func TestDisruptedPodIsRemovedAndReplaced(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("p", "u1", "1")
		b.returns = map[string]RestartPolicy{
			"Evicted": func(*v1.Pod, status.Disruption) (bool, time.Duration) { return false, 0 }}
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.runs(pod.UID)
		if err := d.Disrupt(pod.UID, eviction, nil); err != nil {
			t.Fatal(err)
		}
		b.until(time.Minute, "it is ended", func() bool { return b.running(pod.UID) == 0 })
		d.config.deliver(manifest.SourceFile, testPod("p", "u2", "2"))
		b.runs("u2")
		b.gone("u1")
		// Also while it is still terminating.
		if err := d.Disrupt("u2", eviction, nil); err != nil {
			t.Fatal(err)
		}
		d.config.deliver(manifest.SourceFile)
		b.gone("u2")
	})
}

// The logs of a pod are removed with its eviction from a full disk, and only then.
func TestLogsOfDisruptedPod(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("p", "u1", "1")
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.runs(pod.UID)
		for run, clear := range []bool{false, true} {
			log := filepath.Join(b.path("logs"), "default_p_u1", "app", fmt.Sprintf("%d.log", run))
			if _, err := os.Stat(log); err != nil {
				t.Fatal(err)
			}
			order := eviction
			order.ClearLogs = clear
			if err := d.Disrupt(pod.UID, order, nil); err != nil {
				t.Fatal(err)
			}
			b.until(time.Minute, "it runs again", func() bool {
				st := d.status(pod.UID)
				return st.Phase == v1.PodRunning && st.ContainerStatuses[0].RestartCount == int32(run+1) &&
					st.ContainerStatuses[0].State.Running != nil
			})
			if _, err := os.Stat(log); os.IsNotExist(err) != clear {
				t.Errorf("log of run %d: %v", run, err)
			}
		}
	})
}

// A user may restart a disrupted pod early, also after a restart of the daemon.
func TestRestartOfDisruptedPod(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("p", "u1", "1")
		b.returns = map[string]RestartPolicy{
			"Evicted": func(*v1.Pod, status.Disruption) (bool, time.Duration) { return false, 0 }}
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.runs(pod.UID)
		for range 2 {
			if err := d.Disrupt(pod.UID, eviction, nil); err != nil {
				t.Fatal(err)
			}
			b.until(time.Minute, "it is ended", func() bool { return d.workers.State(pod.UID) == podworkers.Finished })
			if err := d.Restart(pod.UID, "requested", time.Time{}); err != nil {
				t.Error(err)
			}
			b.runs(pod.UID)
			d = b.restart(pod)
			b.runs(pod.UID)
		}
	})
}

// A killed daemon leaves a disrupted pod partly terminated: the next daemon
// terminates it.
func TestDaemonIsKilledDuringDisruption(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("p", "u1", "1")
		b.returns = map[string]RestartPolicy{"Evicted": func(_ *v1.Pod, d status.Disruption) (bool, time.Duration) {
			left := time.Until(d.At.Add(5 * time.Minute))
			return left <= 0, left
		}}
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.runs(pod.UID)
		at := time.Now()
		if err := d.Disrupt(pod.UID, eviction, nil); err != nil {
			t.Fatal(err)
		}
		b.until(time.Minute, "it is reported", func() bool { return d.status(pod.UID).Reason == "Evicted" })
		b.restart(pod)
		b.until(time.Minute, "it is ended", func() bool { return b.running(pod.UID) == 0 })
		b.runs(pod.UID)
		if took := time.Since(at); took < 5*time.Minute || took > 5*time.Minute+time.Second {
			t.Errorf("it ran %s after it was ended", took)
		}
	})
}

// A gate holds pods that have not started, and no others.
func TestGateHoldsPods(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		var closed atomic.Bool
		b.gates = []Gate{func(*v1.Pod) *status.Cause {
			if closed.Load() {
				return &status.Cause{Reason: "Evicted", Message: "The node had condition: [MemoryPressure]."}
			}
			return nil
		}}
		first, second := testPod("first", "u1", "1"), testPod("second", "u2", "1")
		d := b.start()
		d.config.deliver(manifest.SourceFile, first)
		b.runs("u1")
		closed.Store(true)
		d.config.deliver(manifest.SourceFile, first, second)
		b.after(10 * time.Minute)
		if st := d.status("u2"); st.Phase != v1.PodPending || st.Reason != "Evicted" || b.running("u2") != 0 ||
			b.running("u1") != 1 {
			t.Errorf("%+v", st)
		}
		closed.Store(false)
		d.RetryHeld()
		if took := b.runs("u2"); took > time.Second {
			t.Errorf("it ran %s after it was allowed to", took)
		}
	})
}
