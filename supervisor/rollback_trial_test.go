package supervisor

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/supervisor/rollout"
)

// unprobed returns a pod that is rolled back after an hour and has no readiness probe, so
// that it is Ready whenever its container runs.
func unprobed(uid types.UID, container string) *v1.Pod {
	pod := testPod("web", uid, string(uid))
	pod.Annotations[podinfo.AnnotationRollbackAfter] = "1h"
	pod.Spec.Containers[0].Name = container
	return pod
}

// A container without a readiness probe is Ready in the moment before it crashes: that is
// no proof that its revision works.
func TestCrashLoopWithoutReadinessProbeIsRolledBack(t *testing.T) {
	for _, runFor := range []time.Duration{time.Second, 8 * time.Second} {
		t.Run(runFor.String(), func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				d := b.start()
				d.config.deliver(file, unprobed("u1", "app"))
				b.awaitReady("u1")
				b.after(time.Minute)
				b.fake.Behave("web/next", critest.Behaviour{RunFor: runFor, ExitCode: 1})
				d.config.deliver(file, unprobed("u2", "next"))
				b.awaitState(rollout.RolledBack, "u1")
				b.awaitReady("u1")
				if list := d.warnings(rollout.ReasonCrashLoop); len(list) != 1 {
					t.Errorf("%q", list)
				}
			})
		})
	}
}

// A container that exits with 0 and is started again does its work.
func TestRestartAfterSuccessIsNoCrashLoop(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, unprobed("u1", "app"))
		b.awaitReady("u1")
		b.fake.Behave("web/next", critest.Behaviour{RunFor: 3 * time.Second})
		d.config.deliver(file, unprobed("u2", "next"))
		b.awaitState(rollout.Stable, "u2")
		b.after(3 * time.Hour)
		if st := d.rollout(t, "web"); st.State != rollout.Stable || st.UID != "u2" {
			t.Errorf("%+v\n%s", st, d.log)
		}
	})
}

// A revision that became Ready while the daemon was away has a moment to show it.
func TestDeadlineThatPassedWhileTheDaemonWasAway(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		booted := time.Now()
		b.mark = func() (wallclock.Mark, bool) { return wallclock.Mark{Boot: "one", Up: time.Since(booted)}, true }
		a := answering(b.fake)
		a.fail("ready-u2", true)
		b.replaceReady(judged)
		b.after(20 * time.Second)
		b.sigkill()
		a.fail("ready-u2", false)
		b.after(time.Hour)
		d := b.start()
		d.config.deliver(file, judged("u2"))
		b.awaitState(rollout.Stable, "u2")
		b.after(10 * time.Minute)
		b.only("u2", 1)
		if list := d.warnings(rollout.ReasonDeadline); len(list) != 0 {
			t.Errorf("%q", list)
		}
	})
}
