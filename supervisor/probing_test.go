package supervisor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/supervisor/podprobes"
)

// responds scripts the results of exec probes' commands, by their words.
type responses struct {
	mu sync.Mutex
	// failing holds the commands that exit with 1, since when.
	failing map[string]bool
	last    map[string]time.Time
	asked   map[string]int
}

func answering(f *critest.Fake) *responses {
	a := &responses{failing: map[string]bool{}, last: map[string]time.Time{}, asked: map[string]int{}}
	f.OnExec(func(_ context.Context, c critest.Container, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse,
		error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		words := strings.Join(r.Cmd, " ")
		a.last[words] = time.Now()
		a.asked[words]++
		if a.failing[words] {
			return &runtimeapi.ExecSyncResponse{ExitCode: 1, Stderr: []byte(c.Name + " is not well")}, nil
		}
		return &runtimeapi.ExecSyncResponse{}, nil
	})
	return a
}

func (a *responses) fail(words string, failing bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing[words] = failing
}

func (a *responses) at(words string) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[words]
}

func (a *responses) times(words string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[words]
}

func execProbe(period, failures int32, command ...string) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}},
		PeriodSeconds: period, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: failures,
	}
}

func probedPod(name string, uid types.UID) *v1.Pod {
	pod := testPod(name, uid, "r1")
	c := &pod.Spec.Containers[0]
	c.LivenessProbe, c.ReadinessProbe = execProbe(2, 2, "live"), execProbe(1, 1, "ready")
	return pod
}

// appStatus returns the status of the pod's only container.
func (d *daemon) appStatus(uid types.UID) v1.ContainerStatus {
	if list := d.status(uid).ContainerStatuses; len(list) == 1 {
		return list[0]
	}
	return v1.ContainerStatus{}
}

func (d *daemon) isReady(uid types.UID) bool { return ready(&v1.Pod{Status: d.status(uid)}) }

func TestLivenessFailureRestarts(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		b.fake.Behave("app", critest.Behaviour{IgnoreTerm: true})
		d := b.start()
		pod := probedPod("web", "u1")
		grace := int64(3)
		pod.Spec.Containers[0].LivenessProbe.TerminationGracePeriodSeconds = &grace
		d.config.deliver(file, pod)
		b.runs("u1")
		b.until(5*time.Second, "ready", func() bool { return d.isReady("u1") })
		b.after(10 * time.Second)
		if n := b.fake.Starts("u1", "app"); n != 1 {
			t.Fatalf("started %d times", n)
		}
		stops := b.fake.Calls("StopContainer")
		a.fail("live", true)
		b.until(10*time.Second, "it is stopped", func() bool { return b.fake.Calls("StopContainer") > stops })
		decided := a.at("live")
		if late := time.Since(decided); late > 200*time.Millisecond {
			t.Errorf("stopped %s after the deciding probe", late)
		}
		a.fail("live", false)
		b.until(30*time.Second, "started again", func() bool { return b.fake.Starts("u1", "app") == 2 })
		if took := time.Since(decided); took < 2900*time.Millisecond || took > 4*time.Second {
			t.Errorf("restarted after %s, the probe's own grace is 3 s", took)
		}
		b.until(5*time.Second, "ready again", func() bool { return d.isReady("u1") })
		if c := d.appStatus("u1"); c.RestartCount != 1 || c.LastTerminationState.Terminated == nil {
			t.Errorf("status %+v", c)
		}
		events := fmt.Sprint(d.events.List())
		for _, text := range []string{"Liveness probe failed: app is not well",
			"Container app failed liveness probe, will be restarted"} {
			if !strings.Contains(events, text) {
				t.Errorf("no event contains %q", text)
			}
		}
		b.after(10 * time.Minute)
		if n := b.fake.Starts("u1", "app"); n != 2 {
			t.Errorf("started %d times", n)
		}
	})
}

// TestLivenessUnderEachPolicy: a container that a failed probe has killed is
// started again although it exits with 0, unless the policy is Never.
func TestLivenessUnderEachPolicy(t *testing.T) {
	for policy, starts := range map[v1.RestartPolicy]int{v1.RestartPolicyAlways: 2, v1.RestartPolicyOnFailure: 2,
		v1.RestartPolicyNever: 1} {
		t.Run(string(policy), func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				a := answering(b.fake)
				b.fake.Behave("app", critest.Behaviour{StopAfter: time.Second})
				b.fake.Latency("CreateContainer", time.Second)
				d := b.start()
				pod := probedPod("web", "u1")
				pod.Spec.RestartPolicy = policy
				d.config.deliver(file, pod)
				b.runs("u1")
				b.after(5 * time.Second)
				a.fail("live", true)
				b.until(20*time.Second, "ended", func() bool { return b.running("u1") == 0 })
				a.fail("live", false)
				b.after(time.Minute)
				if n := b.fake.Starts("u1", "app"); n != starts {
					t.Errorf("started %d times, want %d", n, starts)
				}
				if phase := d.status("u1").Phase; (phase == v1.PodRunning) != (starts == 2) {
					t.Errorf("phase %s", phase)
				}
			})
		})
	}
}

func TestReadinessShowsAtOnce(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		a.fail("ready", true)
		d := b.start()
		// A pod that is never ready in between must never be shown as
		// ready.
		seen, cancel := d.statuses.Subscribe()
		defer cancel()
		d.config.deliver(file, probedPod("web", "u1"))
		b.runs("u1")
		for range 1000 {
			b.after(10 * time.Millisecond)
			select {
			case <-seen:
			default:
			}
			if d.isReady("u1") {
				t.Fatal("ready before its probe succeeded")
			}
		}
		for _, failing := range []bool{false, true, false} {
			a.fail("ready", failing)
			b.until(3*time.Second, "readiness shows", func() bool { return d.isReady("u1") != failing })
			if late := time.Since(a.at("ready")); late > 100*time.Millisecond {
				t.Errorf("shown %s after the probe", late)
			}
		}
		if n := b.fake.Starts("u1", "app"); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

func TestStartupGates(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		a.fail("start web", true)
		a.fail("live", true)
		d := b.start()
		pod := probedPod("web", "u1")
		c := &pod.Spec.Containers[0]
		// References to the container's own variables are expanded.
		c.Env = []v1.EnvVar{{Name: "WHO", Value: "web"}}
		c.StartupProbe = execProbe(1, 20, "start", "$(WHO)")
		d.config.deliver(file, pod)
		b.runs("u1")
		b.after(10 * time.Second)
		if a.times("live")+a.times("ready") > 0 {
			t.Error("probed before it has started")
		}
		if s := d.appStatus("u1"); s.Started == nil || *s.Started || s.Ready {
			t.Errorf("status %+v", s)
		}
		a.fail("start web", false)
		a.fail("live", false)
		b.until(2*time.Second, "started and ready", func() bool {
			s := d.appStatus("u1")
			return s.Started != nil && *s.Started && s.Ready
		})

		a.fail("start web", true)
		slow := probedPod("slow", "u2")
		slow.Spec.Containers[0].StartupProbe = execProbe(1, 3, "start", "web")
		d.config.deliver(file, pod, slow)
		b.until(30*time.Second, "killed for not starting", func() bool { return b.fake.Starts("u2", "app") == 2 })
		if events := fmt.Sprint(d.events.List()); !strings.Contains(events,
			"Container app failed startup probe, will be restarted") {
			t.Error("no event reports it")
		}
		if n := b.fake.Starts("u1", "app"); n != 1 {
			t.Errorf("the pod that had started was started %d times", n)
		}
	})
}

func TestEndingPodIsProbedForReadinessOnly(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		b.fake.Behave("app", critest.Behaviour{IgnoreTerm: true})
		forgotten := 0
		b.sources = func(s *Sources) { s.Probes = forgetting{s.Probes, &forgotten} }
		d := b.start()
		d.config.deliver(file, probedPod("web", "u1"))
		b.until(20*time.Second, "ready", func() bool { return d.isReady("u1") })
		d.config.deliver(file)
		b.after(2 * time.Second)
		n := a.times("live")
		a.fail("live", true)
		a.fail("ready", true)
		b.until(3*time.Second, "not ready while it ends", func() bool { return !d.isReady("u1") })
		a.fail("ready", false)
		b.until(3*time.Second, "ready while it ends", func() bool { return d.isReady("u1") })
		b.after(10 * time.Second)
		if a.times("live") != n {
			t.Error("liveness is probed while the pod ends")
		}
		if b.running("u1") != 1 {
			t.Fatal("the grace period was cut short")
		}
		b.gone("u1")
		n = a.times("ready")
		b.after(time.Minute)
		if a.times("ready") != n {
			t.Error("a removed pod is probed")
		}
		if forgotten == 0 {
			t.Error("its results are never removed")
		}
	})
}

// forgetting counts the pods whose results are removed.
type forgetting struct {
	podprobes.Prober
	count *int
}

func (f forgetting) RemovePod(uid types.UID) {
	*f.count++
	f.Prober.RemovePod(uid)
}

// TestReadinessOverARestartOfTheDaemon: readiness neither flaps nor is lost.
func TestReadinessOverARestartOfTheDaemon(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		a.fail("slow", true)
		well, ill := probedPod("well", "u1"), probedPod("ill", "u2")
		well.Spec.Containers[0].StartupProbe = execProbe(1, 100, "start")
		well.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 20
		ill.Spec.Containers[0].ReadinessProbe = execProbe(20, 1, "slow")
		b.start().config.deliver(file, well, ill)
		b.runs("u1")
		b.runs("u2")
		b.after(5 * time.Second)
		starts := a.times("start")
		d := b.restart(well, ill)
		for range 2500 {
			b.after(10 * time.Millisecond)
			if d.status("u1").Phase != "" && !d.isReady("u1") {
				t.Fatal("the ready pod is not ready")
			}
			if d.isReady("u2") {
				t.Fatal("the pod that was not ready is ready")
			}
		}
		if d.status("u1").Phase != v1.PodRunning || a.times("start") != starts {
			t.Errorf("phase %s, %d startup probes", d.status("u1").Phase, a.times("start")-starts)
		}
		b.noWrites(len(b.fake.Writes()))
		a.fail("ready", true)
		b.until(25*time.Second, "not ready", func() bool { return !d.isReady("u1") })
	})
}

// TestReadinessWhileAnotherImageIsPulled: a pull blocks the worker, but not the
// status of the running containers.
func TestReadinessWhileAnotherImageIsPulled(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		a := answering(b.fake)
		a.fail("ready", true)
		d := b.start()
		pod := probedPod("web", "u1")
		second := *pod.Spec.Containers[0].DeepCopy()
		second.Name, second.Image = "second", "img:2"
		second.LivenessProbe, second.ReadinessProbe = nil, nil
		pod.Spec.Containers = append(pod.Spec.Containers, second)
		b.fake.SetImages("img:1")
		pull := b.fake.Inject("PullImage", critest.Fault{Image: "img:2", Hang: true})
		d.config.deliver(file, pod)
		b.until(time.Minute, "first runs", func() bool { return b.running("u1") == 1 })
		appReady := func() bool {
			for _, c := range d.status("u1").ContainerStatuses {
				if c.Name == "app" {
					return c.Ready
				}
			}
			return false
		}
		b.after(5 * time.Second)
		if a.times("ready") < 4 {
			t.Errorf("probed %d times in 5 s of pulling", a.times("ready"))
		}
		a.fail("ready", false)
		b.until(2*time.Second, "container is ready", appReady)
		pull.Release()
		b.until(time.Minute, "pod is ready", func() bool { return d.isReady("u1") })
	})
}

func TestThousandProbedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := 1000
		if underRace {
			pods = 100
		}
		b := newSupervisorHarness(t, false)
		defer b.kill()
		a := answering(b.fake)
		d := b.start()
		var all []*v1.Pod
		for i := range pods {
			pod := testPod(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i)), "r1")
			pod.Spec.Containers[0].ReadinessProbe = execProbe(1, 1, "ready")
			all = append(all, pod)
		}
		d.config.deliver(file, all...)
		count := func() (n int) {
			for _, pod := range all {
				if d.isReady(pod.UID) {
					n++
				}
			}
			return n
		}
		b.until(5*time.Minute, "all are ready", func() bool { return count() == pods })
		for _, failing := range []bool{true, false, true} {
			a.fail("ready", failing)
			before := a.times("ready")
			b.after(1100 * time.Millisecond)
			if n := a.times("ready") - before; n < pods {
				t.Errorf("%d of %d probed in a second", n, pods)
			}
			if n := count(); (n == 0) != failing || n != 0 && n != pods {
				t.Errorf("%d of %d ready, failing %t", n, pods, failing)
			}
		}
	})
}
