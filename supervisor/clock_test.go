package supervisor

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
)

// When the clock is set by decades, back and forth, while pods run and
// containers exit, running containers are not touched, exited ones restart as
// usual, and probes continue.
func TestClockIsSetWhilePodsRun(t *testing.T) {
	const decades = 30 * 365 * 24 * time.Hour
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		// As on a board that boots without a real-time clock.
		b.fake.SetClock(-decades)
		pod, loop := testPod("web", "u-web", "1"), testPod("loop", "u-loop", "1")
		probe := &v1.Probe{
			ProbeHandler:        v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"ask"}}},
			InitialDelaySeconds: 3, PeriodSeconds: 2, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 2,
		}
		pod.Spec.Containers[0].ReadinessProbe, pod.Spec.Containers[0].LivenessProbe = probe, probe
		b.fake.Behave("loop/app", critest.Behaviour{RunFor: time.Second, ExitCode: 1})
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod, loop)
		ready := func(d *daemon, restarts int32, limit time.Duration) {
			t.Helper()
			b.until(limit, fmt.Sprintf("it is ready with %d restarts", restarts), func() bool {
				st := d.status(pod.UID)
				return isReady(st) == v1.ConditionTrue && b.running(pod.UID) == 1 &&
					st.ContainerStatuses[0].RestartCount == restarts
			})
		}
		ready(d, 0, 10*time.Second)
		restarts := int32(0)
		for _, ahead := range []time.Duration{0, decades, -decades, 0, -decades} {
			b.fake.SetClock(ahead)
			loops := b.fake.Starts("u-loop", "app")
			b.after(11 * time.Minute)
			ready(d, restarts, 0)
			if n := b.fake.Starts("u-loop", "app") - loops; n < 2 || n > 8 {
				t.Errorf("%s ahead: a crash-looping container was started %d times in 11 minutes", ahead, n)
			}
			// It ran for more than ten minutes: there is no
			// back-off.
			b.fake.Exit("web/app", 1)
			restarts++
			ready(d, restarts, 10*time.Second)
			if restarts%2 == 0 {
				d = b.restart(pod, loop)
				ready(d, restarts, 10*time.Second)
			}
		}
		d.config.deliver(manifest.SourceFile)
		b.gone(pod.UID)
		b.gone(loop.UID)
	})
}
