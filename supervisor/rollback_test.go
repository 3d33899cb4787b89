package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/supervisor/rollout"
)

// judged returns a pod that is rolled back unless it is Ready within a minute. It is
// Ready when the command "ready" followed by the revision succeeds.
func judged(uid types.UID) *v1.Pod {
	pod := testPod("web", uid, string(uid))
	pod.Annotations[podinfo.AnnotationRollbackAfter] = "1m"
	pod.Spec.Containers[0].ReadinessProbe = execProbe(1, 1, "ready-"+string(uid))
	return pod
}

// awaitState waits until the rollout of a pod has a state with this revision in effect.
func (b *supervisorHarness) awaitState(state rollout.State, uid types.UID) time.Duration {
	b.t.Helper()
	return b.until(10*time.Minute, fmt.Sprintf("rollout is %s with %s", state, uid), func() bool {
		st, ok := b.daemon.rollouts.StatusOf("default/web")
		return ok && st.State == state && st.UID == uid
	})
}

// ready reports whether the pod is Ready.
func (b *supervisorHarness) isReady(uid types.UID) bool {
	for _, c := range b.daemon.status(uid).Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func (b *supervisorHarness) awaitReady(uid types.UID) {
	b.t.Helper()
	b.until(5*time.Minute, fmt.Sprintf("%s is ready", uid), func() bool { return b.isReady(uid) })
}

// replaceReady starts the daemon and delivers u1; when that is Ready, u2 replaces it.
func (b *supervisorHarness) replaceReady(revision func(types.UID) *v1.Pod) *daemon {
	b.t.Helper()
	d := b.start()
	d.config.deliver(file, revision("u1"))
	b.awaitReady("u1")
	d.config.deliver(file, revision("u2"))
	b.runs("u2")
	return d
}

// A revision that does not become Ready is replaced by the last one that was, and not
// tried again until its manifest changes or a request comes.
func TestRollbackAfterTheDeadline(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		a.fail("ready-u2", true)
		d := b.replaceReady(judged)
		if st := d.rollout(t, "web"); st.State != rollout.Progressing || st.LastGood == "" {
			t.Errorf("%+v", st)
		}
		took := b.awaitState(rollout.RolledBack, "u1")
		if took < 55*time.Second || took > 65*time.Second {
			t.Errorf("rolled back after %s", took)
		}
		b.awaitReady("u1")
		b.gone("u2")
		b.awaitHeld("u1", "was rolled back: it was not Ready within 1m0s: Readiness probe failed: ")
		b.after(10 * time.Minute)
		b.only("u1", 2)
		for reason, n := range map[string]int{rollout.ReasonDeadline: 1, rollout.ReasonRolledBack: 1} {
			if list := d.warnings(reason); len(list) != n {
				t.Errorf("%s: %q", reason, list)
			}
		}
		// The restart of the daemon does not try it again.
		d = b.restart(judged("u2"))
		b.after(10 * time.Minute)
		b.only("u1", 2)
		b.awaitHeld("u1", "rolled back")
		// On request it is tried again, and is good this time.
		a.fail("ready-u2", false)
		if err := d.rollouts.Retry("default/web"); err != nil {
			t.Fatal(err)
		}
		b.awaitState(rollout.Stable, "u2")
		b.gone("u1")
		b.after(10 * time.Minute)
		b.only("u2", 2)
		if held := d.held("u2"); held != "" {
			t.Error(held)
		}
	})
}

// A revision that was Ready once before the deadline stays, whatever comes after it.
func TestReadyOnceIsSuccess(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		a.fail("ready-u2", true)
		d := b.replaceReady(judged)
		b.after(50 * time.Second)
		a.fail("ready-u2", false)
		b.awaitReady("u2")
		a.fail("ready-u2", true)
		b.after(10 * time.Minute)
		b.only("u2", 1)
		if st := d.rollout(t, "web"); st.State != rollout.Stable || st.LastGood != st.Revision {
			t.Errorf("%+v", st)
		}
	})
}

// A crash loop and a failed pod do not wait for the deadline; a node's eviction is not the
// revision's fault.
func TestRollbackOfFailures(t *testing.T) {
	for name, reason := range map[string]string{"crash loop": rollout.ReasonCrashLoop, "failed": rollout.ReasonFailed,
		"succeeded": ""} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				answering(b.fake).fail("ready-u2", true)
				long := func(uid types.UID) *v1.Pod {
					pod := judged(uid)
					pod.Annotations[podinfo.AnnotationRollbackAfter] = "1h"
					return pod
				}
				d := b.start()
				d.config.deliver(file, long("u1"))
				b.awaitReady("u1")
				next := long("u2")
				code := int32(1)
				if reason == "" {
					code = 0
				}
				if name != "crash loop" {
					next.Spec.RestartPolicy = v1.RestartPolicyNever
				}
				next.Spec.Containers[0].Name = "next"
				b.fake.Behave("web/next", critest.Behaviour{RunFor: time.Second, ExitCode: code})
				d.config.deliver(file, next)
				if reason == "" {
					b.awaitState(rollout.Stable, "u2")
					b.after(2 * time.Hour)
					if n := b.fake.Running(); n != 0 {
						t.Errorf("%d containers run", n)
					}
					return
				}
				if took := b.awaitState(rollout.RolledBack, "u1"); took > 5*time.Minute {
					t.Errorf("rolled back after %s", took)
				}
				b.awaitReady("u1")
				if list := d.warnings(reason); len(list) != 1 || strings.Contains(list[0], "probe") {
					t.Errorf("%q", list)
				}
			})
		})
	}
}

// A revision that its startup probe ends again and again fails with the failure of the probe.
func TestRollbackNamesTheStartupProbe(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		a.fail("ready-u2", true)
		b.fake.Behave("web/app", critest.Behaviour{TermCode: 143})
		long := func(uid types.UID) *v1.Pod {
			pod := judged(uid)
			pod.Annotations[podinfo.AnnotationRollbackAfter] = "1h"
			c := &pod.Spec.Containers[0]
			c.StartupProbe, c.ReadinessProbe = c.ReadinessProbe, nil
			return pod
		}
		d := b.start()
		d.config.deliver(file, long("u1"))
		b.awaitReady("u1")
		d.config.deliver(file, long("u2"))
		b.awaitState(rollout.RolledBack, "u1")
		if list := d.warnings(rollout.ReasonCrashLoop); len(list) != 1 ||
			!strings.Contains(list[0], "exit code 143; Startup probe failed: ") {
			t.Errorf("%q", list)
		}
	})
}

// A first revision has nothing to go back to, and a rollback is not rolled back.
func TestNothingToRollBackTo(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		for _, uid := range []string{"u1", "u2", "u3"} {
			a.fail("ready-"+uid, true)
		}
		d := b.start()
		d.config.deliver(file, judged("u1"))
		b.runs("u1")
		b.after(5 * time.Minute)
		b.only("u1", 1)
		if st := d.rollout(t, "web"); st.State != rollout.Stable || !strings.Contains(st.Message, "not rolled back") {
			t.Errorf("%+v", st)
		}
		d.config.deliver(file, judged("u2"))
		b.runs("u2")
		b.after(5 * time.Minute)
		b.only("u2", 1)
		// It becomes good, and the rollback to it does not help.
		a.fail("ready-u2", false)
		b.awaitReady("u2")
		d.config.deliver(file, judged("u3"))
		b.runs("u3")
		a.fail("ready-u2", true)
		b.awaitState(rollout.RolledBack, "u2")
		b.awaitHeld("u2", "is not Ready either")
		b.after(5 * time.Minute)
		b.only("u2", 2)
		if list := d.warnings(rollout.ReasonRolledBack); len(list) != 2 || !strings.Contains(list[1], "is not Ready either") {
			t.Errorf("%q", list)
		}
		// A correction goes through.
		d.config.deliver(file, judged("u4"))
		b.awaitState(rollout.Stable, "u4")
		b.awaitReady("u4")
	})
}

// Undo chooses an earlier revision until the manifest changes.
func TestUndo(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		for _, uid := range []types.UID{"u1", "u2", "u3"} {
			d.config.deliver(file, testPod("web", uid, string(uid)))
			b.awaitReady(uid)
		}
		history, err := d.rollouts.History("default/web")
		if err != nil || len(history) != 3 || !history[0].InEffect || !history[0].InManifest || !history[2].Ready {
			t.Fatalf("%+v, %v", history, err)
		}
		if err := d.rollouts.Undo("default/web", ""); err != nil {
			t.Fatal(err)
		}
		b.awaitState(rollout.Undone, "u2")
		b.awaitReady("u2")
		b.awaitHeld("u2", "on request")
		if err := d.rollouts.Undo("default/web", history[2].Revision); err != nil {
			t.Fatal(err)
		}
		b.awaitState(rollout.Undone, "u1")
		b.awaitReady("u1")
		b.gone("u2")
		for _, wrong := range []string{"none", history[2].Revision} {
			if err := d.rollouts.Undo("default/web", wrong); err == nil {
				t.Errorf("undo to %q is accepted", wrong)
			}
		}
		if err := d.rollouts.Undo("default/other", ""); err == nil {
			t.Error("undo of an unknown pod is accepted")
		}
		// It outlives the daemon.
		d = b.restart(testPod("web", "u3", "u3"))
		b.after(10 * time.Minute)
		b.only("u1", 2)
		b.awaitState(rollout.Undone, "u1")
		d.config.deliver(file, testPod("web", "u4", "u4"))
		b.awaitState(rollout.Stable, "u4")
		b.awaitReady("u4")
		b.gone("u1")
		if err := d.rollouts.Undo("default/web", ""); err != nil {
			t.Fatal(err)
		}
		b.awaitState(rollout.Undone, "u1")
		if err := d.rollouts.Retry("default/web"); err != nil {
			t.Fatal(err)
		}
		b.awaitState(rollout.Stable, "u4")
		b.awaitReady("u4")
	})
}

// Other images make another revision of the same manifest.
func TestSetImages(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		a := answering(b.fake)
		d := b.start()
		d.config.deliver(file, judged("u1"))
		b.awaitReady("u1")
		digest := "img:1@sha256:" + strings.Repeat("ab", 32)
		if err := d.rollouts.SetImages("default/web", map[string]string{"app": digest}); err != nil {
			t.Fatal(err)
		}
		b.until(time.Minute, "the other image runs", func() bool {
			c, ok := b.fake.Newest("web/app")
			return ok && c.Running() && c.UID != "u1"
		})
		uid := d.rollout(t, "web").UID
		b.awaitReady(uid)
		b.awaitState(rollout.Stable, uid)
		if got := d.rollouts.ManifestUID(uid); got != "u1" {
			t.Errorf("the pod is of %s", got)
		}
		if d.rollouts.DeclaredUID(uid) != "u1" {
			t.Error("the revision is not that of the manifest")
		}
		d = b.restart(judged("u1"))
		b.after(10 * time.Minute)
		b.only(uid, 1)
		if st := d.rollout(t, "web"); st.Images["app"] != digest {
			t.Errorf("%+v", st)
		}
		// An image that does not work is rolled back, and not accepted again.
		a.fail("ready-u1", true)
		bad := map[string]string{"app": "img:1@sha256:" + strings.Repeat("cd", 32)}
		if err := d.rollouts.SetImages("default/web", bad); err != nil {
			t.Fatal(err)
		}
		b.until(5*time.Minute, "it fails", func() bool {
			st := d.rollout(t, "web")
			a.fail("ready-u1", st.State == rollout.Progressing)
			return st.State == rollout.RolledBack && st.UID == uid
		})
		if err := d.rollouts.SetImages("default/web", bad); err == nil {
			t.Error("an image that was rolled back is accepted")
		}
		if err := d.rollouts.SetImages("default/web", nil); err != nil {
			t.Fatal(err)
		}
		b.awaitState(rollout.Stable, "u1")
		b.awaitReady("u1")
	})
}

// An update of images is rolled back without an annotation, to exactly the images that
// ran, and is not offered again.
func TestUpdateImages(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		d := b.start()
		pod := judged("u1")
		delete(pod.Annotations, podinfo.AnnotationRollbackAfter)
		pod.Annotations[podinfo.AnnotationAutoUpdate] = podinfo.AutoUpdateRegistry
		pod.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
		d.config.deliver(file, pod)
		b.awaitReady("u1")
		newer, ran := "img:1@sha256:"+strings.Repeat("ab", 32), "img:1@sha256:"+strings.Repeat("cd", 32)
		if list := d.rollouts.AutoUpdated(); len(list) != 1 || list[0].UID != "u1" || list[0].Busy != "" ||
			list[0].Images != nil {
			t.Errorf("%+v", list)
		}
		if err := d.rollouts.UpdateImages("default/web", map[string]string{"app": newer},
			map[string]string{"app": ran}); err != nil {
			t.Fatal(err)
		}
		pulls := 0
		b.until(10*time.Minute, "it is rolled back", func() bool {
			st := d.rollout(t, "web")
			a.fail("ready-u1", st.State == rollout.Progressing)
			if st.State == rollout.Progressing && pulls == 0 {
				pulls = b.fake.Calls("PullImage")
			}
			return st.State == rollout.RolledBack && b.isReady(st.UID)
		})
		c, _ := b.fake.Newest("web/app")
		if got := c.Config.Image.UserSpecifiedImage; !c.Running() || got != ran {
			t.Errorf("%s runs, want %s", got, ran)
		}
		if n := b.fake.Calls("PullImage"); n != pulls {
			t.Errorf("the rollback pulled %d times", n-pulls)
		}
		b.after(5 * time.Second)
		d = b.restart(pod)
		b.after(10 * time.Minute)
		if list := d.rollouts.AutoUpdated(); len(list) != 1 || list[0].Rejected["app"] != newer ||
			list[0].Images["app"] != ran || list[0].Busy != "" {
			t.Errorf("%+v", list)
		}
		if n := b.fake.Running(); n != 1 {
			t.Errorf("%d containers run", n)
		}
	})
}

// The time goes on while the daemon is away, and begins again with a boot.
func TestRollbackDeadlineOutlivesTheDaemon(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		booted, boot := time.Now(), "one"
		b.mark = func() (wallclock.Mark, bool) { return wallclock.Mark{Boot: boot, Up: time.Since(booted)}, true }
		answering(b.fake).fail("ready-u2", true)
		b.replaceReady(judged)
		b.after(30 * time.Second)
		b.sigkill()
		b.after(10 * time.Second)
		b.start().config.deliver(file, judged("u2"))
		b.runs("u2")
		if took := b.awaitState(rollout.RolledBack, "u1"); took < 10*time.Second || took > 25*time.Second {
			t.Errorf("rolled back after %s", took)
		}
		b.awaitReady("u1")

		b.fake.Behave("web/app", critest.Behaviour{})
		third := judged("u3")
		answering(b.fake).fail("ready-u3", true)
		b.daemon.config.deliver(file, third)
		b.runs("u3")
		for i := range 3 {
			b.after(30 * time.Second)
			if st := b.daemon.rollout(t, "web"); st.UID != "u3" {
				t.Fatalf("%+v after %d boots", st, i)
			}
			b.sigkill()
			b.fake.Reboot()
			booted, boot = time.Now(), fmt.Sprint("boot", i)
			b.start().config.deliver(file, third)
			b.until(time.Minute, "the pod runs again", func() bool { return b.fake.Running() == 1 })
		}
		// Three boots are enough.
		if took := b.awaitState(rollout.RolledBack, "u1"); took > 10*time.Second {
			t.Errorf("rolled back after %s", took)
		}
		b.awaitReady("u1")
	})
}

// A revision that makes the host boot as soon as it runs is rolled back as well.
func TestRevisionThatBootsTheHost(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		booted, boot := time.Now(), "one"
		b.mark = func() (wallclock.Mark, bool) { return wallclock.Mark{Boot: boot, Up: time.Since(booted)}, true }
		answering(b.fake).fail("ready-u2", true)
		b.replaceReady(judged)
		b.after(time.Second)
		for i := range 6 {
			b.sigkill()
			b.fake.Reboot()
			booted, boot = time.Now(), fmt.Sprint("boot", i)
			b.start().config.deliver(file, judged("u2"))
			b.until(time.Minute, "a pod runs", func() bool { return b.fake.Running() == 1 })
			if b.running("u1") == 1 {
				break
			}
		}
		b.awaitState(rollout.RolledBack, "u1")
		b.awaitReady("u1")
		if n := b.fake.Starts("u2", "app"); n > 4 {
			t.Errorf("it was started %d times", n)
		}
	})
}

// After a boot nothing runs, so that the revision that failed is not started again while the
// last good one waits for its image: it may be what made the host boot.
func TestBootDuringARollback(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		booted, boot := time.Now(), "one"
		b.mark = func() (wallclock.Mark, bool) { return wallclock.Mark{Boot: boot, Up: time.Since(booted)}, true }
		b.fake.SetImages("img:1", "img:2")
		b.fake.SetPullable()
		answering(b.fake).fail("ready-u2", true)
		revision := func(uid types.UID) *v1.Pod {
			return withImage(judged(uid), map[types.UID]string{"u1": "img:1", "u2": "img:2"}[uid])
		}
		b.replaceReady(revision)
		b.fake.SetImages("img:2")
		b.awaitState(rollout.RollingBack, "u2")
		b.awaitHeld("u2", "img:1")
		// Nothing but a boot gives the revision up.
		b.sigkill()
		b.start().config.deliver(file, revision("u2"))
		b.awaitState(rollout.RollingBack, "u2")
		b.after(time.Minute)
		b.only("u2", 1)

		b.sigkill()
		b.fake.Reboot()
		booted, boot = time.Now(), "two"
		d := b.start()
		d.config.deliver(file, revision("u2"))
		b.awaitState(rollout.RolledBack, "u1")
		b.after(30 * time.Second)
		if n := b.fake.Starts("u2", "app"); n != 1 {
			t.Errorf("the revision that failed was started %d times\n%s", n, d.log)
		}
		if list := d.warnings(rollout.ReasonRolledBack); len(list) != 1 ||
			!strings.Contains(list[0], "was not Ready within 1m0s") {
			t.Errorf("events: %q", list)
		}
		b.fake.SetPullable("img:1")
		b.awaitReady("u1")
		b.awaitHeld("u1", "was rolled back: it was not Ready within 1m0s: Readiness probe failed: ")
		b.only("u1", 2)
		// Nor does another start try it.
		b.sigkill()
		b.start().config.deliver(file, revision("u2"))
		b.awaitState(rollout.RolledBack, "u1")
		b.after(time.Minute)
		b.only("u1", 2)
	})
}

// Whenever the daemon is killed in the course of a rollback, and whichever writes fail,
// the last good revision runs in the end, once, and two revisions never run at once.
func TestRollbackSurvivesKills(t *testing.T) {
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprintf("writes fail %v", broken), func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				b.fake.SetImages("img:1")
				b.fake.Latency("*", 5*time.Millisecond)
				b.fake.Behave("app", critest.Behaviour{StopAfter: 100 * time.Millisecond})
				a := answering(b.fake)
				d := b.start()
				d.config.deliver(file, judged("u0"))
				b.awaitReady("u0")
				b.after(5 * time.Second)
				good := types.UID("u0")
				for round := range 8 {
					next := types.UID(fmt.Sprint("u", round+1))
					bad := withImage(judged(next), fmt.Sprint("img:", next))
					a.fail("ready-"+string(next), true)
					if broken {
						b.breakWrites()
					}
					b.daemon.config.deliver(file, bad)
					// Killed at another point each time: during the pull, the switch, the
					// judgement, the rollback, and after it.
					for _, at := range []time.Duration{time.Duration(round*9) * time.Millisecond,
						time.Duration(round*40) * time.Millisecond, 59*time.Second + time.Duration(round*150)*time.Millisecond,
						time.Duration(round*15) * time.Millisecond} {
						b.after(at)
						b.sigkill()
						b.start().config.deliver(file, bad)
					}
					if broken {
						b.fixWrites()
					}
					b.until(15*time.Minute, "rolled back", func() bool {
						st, ok := b.daemon.rollouts.StatusOf("default/web")
						return ok && st.State == rollout.RolledBack && st.UID == good && b.isReady(good)
					})
					b.gone(next)
					// What failed is not tried again by a daemon that is killed now.
					starts := b.fake.Starts(string(next), "app")
					b.sigkill()
					b.start().config.deliver(file, bad)
					b.after(30 * time.Second)
					if n := b.fake.Starts(string(next), "app"); n != starts && !broken {
						t.Fatalf("the revision that failed was started again\n%s", b.daemon.log)
					}
					if n := b.fake.Running(); n != 1 {
						t.Fatalf("%d containers run\n%s", n, b.fake.Dump())
					}
				}
			})
		})
	}
}

// breakWrites makes every write of a rollout fail that is not there yet, and fixWrites
// lets them succeed again.
func (b *supervisorHarness) breakWrites() {
	path := filepath.Join(b.path("rollouts"), "default", "web")
	for _, name := range []string{"state.json.tmp"} {
		if err := os.MkdirAll(filepath.Join(path, name, "in the way"), 0o700); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *supervisorHarness) fixWrites() {
	if err := os.RemoveAll(filepath.Join(b.path("rollouts"), "default", "web", "state.json.tmp")); err != nil {
		b.t.Fatal(err)
	}
}

// A state that is damaged, of a newer version or incomplete is moved aside: the newest
// revision of the manifest runs.
func TestDamagedRollout(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"damaged": func(dir string) error { return os.WriteFile(filepath.Join(dir, "state.json"), []byte("{"), 0o600) },
		"empty":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "state.json"), nil, 0o600) },
		"newer": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "state.json"), []byte(`{"version":99}`), 0o600)
		},
		"absent": func(dir string) error { return os.RemoveAll(dir) },
		"no revision": func(dir string) error {
			names, err := filepath.Glob(filepath.Join(dir, "*.json"))
			for _, name := range names {
				if filepath.Base(name) != "state.json" {
					err = os.Remove(name)
				}
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				b.fake.SetImages("img:1")
				d := b.start()
				d.config.deliver(file, testPod("web", "u1", "r1"))
				b.awaitReady("u1")
				b.after(5 * time.Second)
				edited := withImage(testPod("web", "u2", "r2"), "img:2")
				hold := b.fake.HoldPull("img:2")
				d.config.deliver(file, edited)
				b.awaitHeld("u1", "Pulling")
				b.kill()
				hold.Release()
				if err := damage(b.path("rollouts/default/web")); err != nil {
					t.Fatal(err)
				}
				b.start().config.deliver(file, edited)
				b.runs("u2")
				b.gone("u1")
				b.only("u2", 1)
				if aside, _ := filepath.Glob(b.path("rollouts/default/web/state.json.*")); (name == "damaged" || name == "newer" ||
					name == "empty") != (len(aside) == 1) {
					t.Errorf("moved aside: %v", aside)
				}
			})
		})
	}
}
