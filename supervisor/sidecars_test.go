package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// sidecarPod returns a pod with the init containers "side", a sidecar, and
// "init", and the regular container "app".
func sidecarPod(uid types.UID, policy v1.RestartPolicy) *v1.Pod {
	pod := testPod("web", uid, "r1")
	pod.Spec.RestartPolicy = policy
	always := v1.ContainerRestartPolicyAlways
	side, init := *pod.Spec.Containers[0].DeepCopy(), *pod.Spec.Containers[0].DeepCopy()
	side.Name, side.RestartPolicy = "side", &always
	init.Name = "init"
	pod.Spec.InitContainers = []v1.Container{side, init}
	return pod
}

// starts returns the containers that were started, in order.
func (b *supervisorHarness) starts() []string {
	var names []string
	for _, w := range b.fake.Writes() {
		if w.Method == "StartContainer" {
			names = append(names, w.Container)
		}
	}
	return names
}

func (d *daemon) initStatus(uid types.UID, name string) v1.ContainerStatus {
	for _, c := range d.status(uid).InitContainerStatuses {
		if c.Name == name {
			return c
		}
	}
	return v1.ContainerStatus{}
}

func TestSidecarHoldsBackUntilItHasStarted(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		a.fail("up", true)
		b.fake.Behave("init", critest.Behaviour{RunFor: time.Second})
		d := b.start()
		pod := sidecarPod("u1", v1.RestartPolicyAlways)
		side := &pod.Spec.InitContainers[0]
		side.StartupProbe, side.ReadinessProbe = execProbe(1, 60, "up"), execProbe(1, 1, "ready")
		d.config.deliver(file, pod)
		b.after(20 * time.Second)
		if got := b.starts(); !slices.Equal(got, []string{"side"}) {
			t.Fatalf("started %q", got)
		}
		if st := d.status("u1"); st.Phase != v1.PodPending {
			t.Errorf("phase %s", st.Phase)
		}
		a.fail("up", false)
		b.until(5*time.Second, "the next starts", func() bool { return b.fake.Starts("u1", "init") == 1 })
		if late := time.Since(a.at("up")); late > 200*time.Millisecond {
			t.Errorf("the next started %s after the deciding probe", late)
		}
		b.until(10*time.Second, "ready", func() bool { return d.isReady("u1") })
		if got := b.starts(); !slices.Equal(got, []string{"side", "init", "app"}) {
			t.Errorf("started %q", got)
		}
		// Its readiness counts.
		a.fail("ready", true)
		b.until(3*time.Second, "not ready", func() bool { return !d.isReady("u1") })
		a.fail("ready", false)
		b.until(3*time.Second, "ready", func() bool { return d.isReady("u1") })
		// A new daemon does not repeat the startup probe and starts
		// nothing.
		asked, writes := a.times("up"), len(b.fake.Writes())
		d = b.restart(pod)
		b.until(10*time.Second, "ready under a new daemon", func() bool { return d.isReady("u1") })
		// Readiness probes continue.
		b.noWrites(writes, "ExecSync")
		if n := a.times("up"); n != asked {
			t.Errorf("%d more startup probes", n-asked)
		}
	})
}

// A sidecar that does not start in time is killed and started again; nothing
// else starts before it has.
func TestSidecarStartupFailure(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		a.fail("up", true)
		d := b.start()
		pod := sidecarPod("u1", v1.RestartPolicyNever)
		pod.Spec.InitContainers[0].StartupProbe = execProbe(1, 3, "up")
		d.config.deliver(file, pod)
		b.until(30*time.Second, "started again", func() bool { return b.fake.Starts("u1", "side") == 2 })
		if events := fmt.Sprint(d.events.List()); !strings.Contains(events,
			"Container side failed startup probe, will be restarted") {
			t.Error("no event reports it")
		}
		if n := b.fake.Starts("u1", "init"); n != 0 {
			t.Errorf("the next was started %d times", n)
		}
	})
}

func TestSidecarUnderEachPolicy(t *testing.T) {
	for policy, phase := range map[v1.RestartPolicy]v1.PodPhase{
		v1.RestartPolicyNever: v1.PodSucceeded, v1.RestartPolicyOnFailure: v1.PodSucceeded,
		v1.RestartPolicyAlways: v1.PodRunning,
	} {
		t.Run(string(policy), func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				a := answering(b.fake)
				b.fake.Behave("init", critest.Behaviour{ExitAtOnce: true})
				b.fake.Behave("side", critest.Behaviour{StopAfter: time.Second, TermCode: 143})
				d := b.start()
				pod := sidecarPod("u1", policy)
				pod.Spec.InitContainers[0].LivenessProbe = execProbe(1, 1, "live")
				d.config.deliver(file, pod)
				b.until(time.Minute, "all run", func() bool { return b.running("u1") == 2 })
				b.after(2 * time.Second)
				// It exits, it is killed, its probe fails: it restarts.
				b.fake.Exit("side", 0)
				b.until(2*time.Second, "back after its end", func() bool { return b.fake.Starts("u1", "side") == 2 })
				b.after(11 * time.Minute)
				b.fake.Kill("side")
				b.until(2*time.Second, "back after a kill", func() bool { return b.fake.Starts("u1", "side") == 3 })
				b.after(11 * time.Minute)
				a.fail("live", true)
				b.until(5*time.Second, "killed for its probe", func() bool { return b.fake.Calls("StopContainer") > 0 })
				a.fail("live", false)
				b.until(5*time.Second, "back after a failed probe", func() bool { return b.fake.Starts("u1", "side") == 4 })
				if s := d.initStatus("u1", "side"); s.RestartCount != 3 || s.State.Running == nil ||
					s.LastTerminationState.Terminated.ExitCode != 143 {
					t.Errorf("status %+v", s)
				}
				if n := b.fake.Starts("u1", "app") + b.fake.Starts("u1", "init"); n != 2 {
					t.Errorf("the others were started %d times", n)
				}
				b.fake.Exit("app", 0)
				b.until(time.Minute, "the pod has terminated", func() bool {
					return d.status("u1").Phase == phase && b.running("u1") == map[bool]int{true: 2, false: 0}[phase == v1.PodRunning]
				})
				b.after(10 * time.Minute)
				d = b.restart(pod)
				b.after(10 * time.Minute)
				if got := d.status("u1").Phase; got != phase || b.fake.Starts("u1", "side") != 4 {
					t.Errorf("after a restart of the daemon: %s, side was started %d times", got, b.fake.Starts("u1", "side"))
				}
			})
		})
	}
}

// A crash-looping sidecar backs off, and delays no regular container.
func TestSidecarInACrashLoop(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("init", critest.Behaviour{ExitAtOnce: true})
		d := b.start()
		d.config.deliver(file, sidecarPod("u1", v1.RestartPolicyAlways))
		b.until(time.Minute, "all run", func() bool { return b.running("u1") == 2 })
		b.fake.Behave("side", critest.Behaviour{ExitAtOnce: true, ExitCode: 1})
		b.fake.Kill("side")
		b.until(time.Minute, "it waits", func() bool {
			w := d.initStatus("u1", "side").State.Waiting
			return w != nil && w.Reason == "CrashLoopBackOff"
		})
		if st := d.status("u1"); st.Phase != v1.PodRunning || d.isReady("u1") {
			t.Errorf("phase %s, ready %v", st.Phase, d.isReady("u1"))
		}
		b.after(time.Hour)
		if n := b.fake.Starts("u1", "side"); n > 20 {
			t.Errorf("started %d times in an hour", n)
		}
		if n := b.fake.Starts("u1", "app"); n != 1 {
			t.Errorf("app was started %d times", n)
		}
	})
}

// After a reboot everything starts again in order, in the next sandbox; remains
// of the old one, in particular a container that was only created, have no
// effect.
func TestRebootWithSidecars(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		answering(b.fake)
		b.fake.Behave("init", critest.Behaviour{RunFor: time.Second})
		b.start()
		pod := sidecarPod("u1", v1.RestartPolicyAlways)
		pod.Spec.InitContainers[0].StartupProbe = execProbe(1, 60, "up")
		// The host loses power between the creation of app and its
		// start.
		hold := b.fake.Inject("StartContainer", critest.Fault{Container: "app", Hang: true})
		b.daemon.config.deliver(file, pod)
		b.until(time.Minute, "app is being started", func() bool { return hold.Hits() > 0 })
		b.kill()
		hold.Remove()
		b.fake.Reboot()
		before := len(b.starts())
		d := b.restart(pod)
		b.until(time.Minute, "all run", func() bool { return b.running("u1") == 2 && d.isReady("u1") })
		if got := b.starts()[before:]; !slices.Equal(got, []string{"side", "init", "app"}) {
			t.Errorf("started %q", got)
		}
		if s := b.fake.Sandboxes(); s[len(s)-1].Attempt != 1 {
			t.Errorf("sandbox has attempt %d", s[len(s)-1].Attempt)
		}
		if s := d.initStatus("u1", "init"); s.RestartCount != 1 {
			t.Errorf("init %+v", s)
		}
	})
}

// A pod whose init container fails is Failed when its sidecar has exited, and not
// before, also under a daemon that is started meanwhile.
func TestFailedInitWaitsForTheSidecar(t *testing.T) {
	for name, source := range map[string]manifest.Source{"static": manifest.SourceFile, "API": manifest.SourceAPI} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				b.fake.Behave("init", critest.Behaviour{RunFor: time.Second, ExitCode: 1})
				b.fake.Behave("side", critest.Behaviour{StopAfter: 20 * time.Second})
				pod := sidecarPod("u1", v1.RestartPolicyNever)
				pod.Annotations[podinfo.AnnotationSource] = string(source)
				grace := int64(30)
				pod.Spec.TerminationGracePeriodSeconds = &grace
				d := b.start()
				d.config.deliver(source, pod)
				b.until(time.Minute, "the init container has failed", func() bool {
					end := d.initStatus("u1", "init").State.Terminated
					return end != nil && end.ExitCode == 1
				})
				failed := func() bool { return b.daemon.status("u1").Phase == v1.PodFailed }
				b.after(5 * time.Second)
				if b.running("u1") != 1 || failed() {
					t.Fatalf("%d containers run, phase %s", b.running("u1"), d.status("u1").Phase)
				}
				d = b.restart(pod)
				b.until(time.Second, "the new daemon has a status", func() bool { return len(d.status("u1").Conditions) > 0 })
				for b.running("u1") > 0 {
					if failed() {
						t.Fatal("the pod is Failed while its sidecar runs")
					}
					b.after(100 * time.Millisecond)
				}
				b.until(time.Minute, "it is Failed", failed)
				if n := b.fake.Starts("u1", "app"); n != 0 {
					t.Errorf("the regular container was started %d times", n)
				}
			})
		})
	}
}
