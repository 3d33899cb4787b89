package supervisor

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

func deadlinePod(name string, uid types.UID, seconds int64) *v1.Pod {
	pod := testPod(name, uid, "r1")
	pod.Spec.ActiveDeadlineSeconds = &seconds
	return pod
}

// failedAt waits until the deadline ends a pod, which may still be running, and
// returns how long after its start time that was.
func (b *supervisorHarness) failedAt(uid types.UID) time.Duration {
	b.t.Helper()
	b.until(5*time.Minute, "the deadline ends pod "+string(uid), func() bool {
		c := condition(b.daemon.status(uid), v1.ContainersReady)
		return c != nil && c.Reason == "PodFailed"
	})
	st := b.daemon.status(uid)
	if st.Phase == v1.PodFailed && st.Reason != "DeadlineExceeded" {
		b.t.Errorf("reason %q: %s", st.Reason, st.Message)
	}
	return time.Since(st.StartTime.Time)
}

func (b *supervisorHarness) mustBeAt(got, want time.Duration) {
	b.t.Helper()
	// until checks every 100 ms.
	if got < want || got > want+150*time.Millisecond {
		b.t.Errorf("after %s, want %s", got, want)
	}
}

func TestDeadlineIsOnTime(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.start().config.deliver(manifest.SourceFile, deadlinePod("a", "a", 90))
		b.runs("a")
		b.mustBeAt(b.failedAt("a"), 90*time.Second)
		b.until(time.Minute, "nothing runs", func() bool { return b.running("a") == 0 && b.fake.Ready() == 0 })
		// It has failed for good, also for a daemon that finds nothing
		// of it.
		b.fake.Reboot()
		b.restart(deadlinePod("a", "a", 90))
		b.after(5 * time.Minute)
		if b.running("a") != 0 || b.daemon.status("a").Phase != v1.PodFailed || b.fake.Starts("a", "app") != 1 {
			t.Errorf("%+v\n%s", b.daemon.status("a"), b.fake.Dump())
		}
	})
}

// Neither a restart of the daemon, nor a crash-looping container, nor a pull
// that hangs extends a pod's deadline.
func TestDeadlineIsNotExtended(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pods := []*v1.Pod{deadlinePod("a", "a", 100), deadlinePod("loop", "loop", 40), deadlinePod("pull", "pull", 30)}
		pods[2].Spec.Containers[0].Image = "registry.example/slow:1"
		b.fake.Behave("loop/app", critest.Behaviour{RunFor: time.Second, ExitCode: 1})
		b.fake.SetImages(pods[0].Spec.Containers[0].Image)
		b.fake.HoldPull("registry.example/slow:1")
		b.start().config.deliver(manifest.SourceFile, pods...)
		b.runs("a")
		b.mustBeAt(b.failedAt("pull"), 30*time.Second)
		b.mustBeAt(b.failedAt("loop"), 40*time.Second)
		before := b.daemon.status("a").StartTime
		b.kill()
		time.Sleep(20 * time.Second)
		b.restart(pods...)
		b.mustBeAt(b.failedAt("a"), 100*time.Second)
		if now := b.daemon.status("a").StartTime; !now.Equal(before) {
			t.Errorf("start time went from %s to %s", before, now)
		}
	})
}

// A deadline does not depend on changes of the clock while the pod runs, also
// for a daemon that is restarted in between.
func TestDeadlineWhenTheClockIsSet(t *testing.T) {
	for name, set := range map[string]time.Duration{"forward by 56 years": -56 * 365 * 24 * time.Hour,
		"back by 56 years": 56 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				begun := time.Now()
				b.mark = func() (wallclock.Mark, bool) {
					return wallclock.Mark{Boot: "this", Up: time.Hour + time.Since(begun)}, true
				}
				pod := deadlinePod("a", "a", 100)
				b.start().config.deliver(manifest.SourceFile, pod)
				b.runs("a")
				b.after(30 * time.Second)
				b.kill()
				// The effect of a clock change on a recorded time.
				records, err := status.OpenRecords(b.path("records"), statefile.Disk{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				record := records.Load("a")
				record.StartTime = record.StartTime.Add(set)
				if err := records.Save("a", record); err != nil {
					t.Fatal(err)
				}
				b.restart(pod)
				b.failedAt("a")
				b.mustBeAt(time.Since(begun), 100*time.Second)
			})
		})
	}
}

// The time that a pod waits for its predecessor does not count.
func TestDeadlineDoesNotCountTheQueue(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		old := testPod("web", "old", "r1")
		grace := int64(60)
		old.Spec.TerminationGracePeriodSeconds = &grace
		d := b.start()
		d.config.deliver(manifest.SourceFile, old)
		b.runs("old")
		b.fake.Behave("web/app", critest.Behaviour{StopAfter: 50 * time.Second})
		d.config.deliver(manifest.SourceFile, deadlinePod("web", "new", 20))
		b.after(30 * time.Second)
		if st := d.status("new"); st.Phase != v1.PodPending || st.StartTime != nil {
			t.Errorf("while it waits: %+v", st)
		}
		b.until(time.Minute, "it runs", func() bool { return b.running("new") == 1 })
		b.mustBeAt(b.failedAt("new"), 20*time.Second)
	})
}

// A daemon that is killed between the decision and the termination of the pod
// does not lose the decision.
func TestDeadlineOutlivesTheDaemon(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := deadlinePod("a", "a", 10)
		b.fake.Behave("a/app", critest.Behaviour{StopAfter: 20 * time.Second})
		b.start().config.deliver(manifest.SourceFile, pod)
		b.runs("a")
		b.failedAt("a")
		b.kill()
		b.fake.Reboot()
		b.restart(pod)
		b.after(time.Minute)
		if st := b.daemon.status("a"); b.fake.Starts("a", "app") != 1 || st.Phase != v1.PodFailed ||
			st.Reason != "DeadlineExceeded" {
			t.Errorf("%+v\n%s", st, b.fake.Dump())
		}
	})
}
