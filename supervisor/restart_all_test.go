package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// restartAllPod returns a sidecarPod that restarts nothing, except for all
// containers when app exits with 42. Its container "other" is only there to be
// killed.
func restartAllPod(uid types.UID) *v1.Pod {
	pod := sidecarPod(uid, v1.RestartPolicyNever)
	never := v1.ContainerRestartPolicyNever
	app := &pod.Spec.Containers[0]
	other := *app.DeepCopy()
	other.Name = "other"
	app.RestartPolicy = &never
	app.RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	pod.Spec.Containers = append(pod.Spec.Containers, other)
	return pod
}

func (d *daemon) restarts(uid types.UID) map[string]int32 {
	counts := map[string]int32{}
	st := d.status(uid)
	for _, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		counts[c.Name] = c.RestartCount
	}
	return counts
}

func (b *supervisorHarness) logs(uid types.UID, container string) []string {
	entries, _ := os.ReadDir(filepath.Join(b.path("logs"), "default_web_"+string(uid), container))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestRestartAll(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("init", critest.Behaviour{ExitAtOnce: true})
		b.fake.Behave("other", critest.Behaviour{IgnoreTerm: true})
		d := b.start()
		d.config.deliver(file, restartAllPod("u1"))
		b.until(time.Minute, "all run", func() bool { return b.running("u1") == 3 })
		for round := int32(1); round <= 3; round++ {
			b.after(11 * time.Minute) // so that there is no back-off
			begun, sandboxes := len(b.starts()), len(b.fake.Sandboxes())
			at := time.Now()
			b.fake.Exit("app", 42)
			b.until(time.Minute, "all run again", func() bool { return b.running("u1") == 3 && len(b.starts()) == begun+4 })
			// "other" does not exit before it is killed, for which
			// the minimum grace period is 2 s.
			if took := time.Since(at); took > 4*time.Second {
				t.Errorf("round %d took %s", round, took)
			}
			if got := b.starts()[begun:]; !slices.Equal(got, []string{"side", "init", "app", "other"}) {
				t.Errorf("started %q", got)
			}
			if len(b.fake.Sandboxes()) != sandboxes {
				t.Error("the sandbox was replaced")
			}
			b.after(time.Second)
			for _, name := range []string{"side", "init", "app", "other"} {
				if got := d.restarts("u1")[name]; got != round {
					t.Errorf("round %d: restarts %v", round, d.restarts("u1"))
				}
				if got, want := b.logs("u1", name),
					[]string{fmt.Sprintf("%d.log", round-1), fmt.Sprintf("%d.log", round)}; !slices.Equal(got, want) {
					t.Errorf("round %d: logs of %s are %q, want %q", round, name, got, want)
				}
			}
			for _, c := range d.status("u1").ContainerStatuses {
				last := c.LastTerminationState.Terminated
				if want := map[string]int32{"app": 42, "other": 137}[c.Name]; last == nil || last.ExitCode != want ||
					last.ContainerID == "" {
					t.Errorf("%s was %+v", c.Name, last)
				}
			}
		}
		if links, _ := os.ReadDir(b.path("links")); len(links) != 8 {
			t.Errorf("%d links to logs, want 8", len(links))
		}
		if d.status("u1").Phase != v1.PodRunning {
			t.Errorf("phase %s", d.status("u1").Phase)
		}
		// Another exit code terminates the pod.
		b.fake.Exit("app", 1)
		b.fake.Exit("other", 0)
		b.until(time.Minute, "it has failed",
			func() bool { return d.status("u1").Phase == v1.PodFailed && b.running("u1") == 0 })
	})
}

// A container that keeps requesting a restart of all containers backs off like
// one that keeps crashing; the others keep running.
func TestRestartAllBacksOff(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("init", critest.Behaviour{ExitAtOnce: true})
		b.fake.Behave("app", critest.Behaviour{RunFor: time.Second, ExitCode: 42})
		d := b.start()
		d.config.deliver(file, restartAllPod("u1"))
		b.until(time.Minute, "it waits", func() bool {
			c := d.status("u1").ContainerStatuses
			return len(c) == 2 && c[0].State.Waiting != nil && c[0].State.Waiting.Reason == "CrashLoopBackOff"
		})
		if b.running("u1") != 2 || d.status("u1").Phase != v1.PodRunning {
			t.Errorf("%d run, phase %s", b.running("u1"), d.status("u1").Phase)
		}
		b.after(time.Hour)
		if n := b.fake.Starts("u1", "side"); n < 10 || n > 20 {
			t.Errorf("all restarted %d times in an hour", n)
		}
		if n := len(b.logs("u1", "side")); n > 2 {
			t.Errorf("%d logs of one container are kept", n)
		}
	})
}

// The daemon is killed at any call of a restart of all containers: the next
// daemon continues it, and the pod never counts as terminated.
func TestNextDaemonContinuesRestartAll(t *testing.T) {
	for _, init := range []int{0, 2} {
		for calls := range 6 + 4*init {
			t.Run(fmt.Sprintf("%d init containers, call %d", init, calls), func(t *testing.T) {
				withTestbed(t, func(t *testing.T, b *supervisorHarness) {
					b.fake.Behave("init", critest.Behaviour{ExitAtOnce: true})
					d := b.start()
					pod := restartAllPod("u1")
					pod.Spec.InitContainers = pod.Spec.InitContainers[:init]
					running := 2 + init/2
					d.config.deliver(file, pod)
					b.until(time.Minute, "all run", func() bool { return b.running("u1") == running })
					b.after(11 * time.Minute)
					before := len(b.fake.Writes())
					b.fake.Latency("*", time.Millisecond)
					b.fake.Exit("app", 42)
					for len(b.fake.Writes())-before < calls {
						time.Sleep(100 * time.Microsecond)
					}
					d = b.restart(pod)
					b.until(time.Minute, "all have restarted", func() bool {
						if p := d.status("u1").Phase; p == v1.PodFailed || p == v1.PodSucceeded {
							t.Fatalf("the pod has ended: %s\n%s\n%s", p, b.fake.Dump(), d.log)
						}
						return b.running("u1") == running && b.fake.Starts("u1", "app") == 2 && b.fake.Starts("u1", "other") == 2
					})
					b.after(10 * time.Minute)
					for name, n := range d.restarts("u1") {
						if n != 1 {
							t.Errorf("%s was restarted %d times", name, n)
						}
					}
					if n := b.fake.Starts("u1", "side") + b.fake.Starts("u1", "init"); n != 2*init {
						t.Errorf("sidecar and init container were started %d times", n)
					}
				})
			})
		}
	}
}

// A pod whose containers have all exited is not terminated while one of them
// still has to restart.
func TestRestartAllWaitsForAnImage(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		pod := restartAllPod("u1")
		pod.Spec.InitContainers = nil
		other := &pod.Spec.Containers[1]
		other.Image, other.ImagePullPolicy = "img:2", v1.PullAlways
		b.fake.SetPullable("img:1", "img:2")
		d.config.deliver(file, pod)
		b.until(time.Minute, "all run", func() bool { return b.running("u1") == 2 })
		b.after(time.Second)
		away := b.fake.Inject("PullImage", critest.Fault{Times: -1, Before: critest.Err(codes.Unavailable, "no registry")})
		b.fake.Behave("app", critest.Behaviour{ExitAtOnce: true})
		b.fake.Exit("app", 42)
		b.until(time.Minute, "app has run again", func() bool { return b.fake.Starts("u1", "app") == 2 })
		b.after(10 * time.Second)
		d = b.restart(pod)
		b.after(10 * time.Second)
		if p := d.status("u1").Phase; podinfo.IsTerminal(p) {
			t.Errorf("phase %s\n%s", p, d.log)
		}
		away.Remove()
		b.until(10*time.Minute, "other runs",
			func() bool { return b.running("u1") == 1 && b.fake.Starts("u1", "other") == 2 })
		b.fake.Exit("other", 0)
		b.until(time.Minute, "it has succeeded", func() bool { return d.status("u1").Phase == v1.PodSucceeded })
	})
}
