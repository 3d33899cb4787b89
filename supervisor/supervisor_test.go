package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podworkers"
)

const file = manifest.SourceFile

func TestStartAndRemove(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		pod := testPod("web", "u1", "r1")
		pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)2"}}
		d.config.deliver(file, pod)
		b.runs("u1")
		c, _ := b.fake.Newest("app")
		if got := c.Config.Envs[1].Value; string(got) != "12" {
			t.Errorf("env B=%s", got)
		}
		if got := c.Config.Mounts[0].HostPath; got != b.path("pods/u1/volumes/kubernetes.io~empty-dir/data") {
			t.Errorf("mount of %s", got)
		}
		b.until(time.Minute, "pod is ready", func() bool { return ready(d.Pods()[0]) })
		d.config.deliver(file)
		b.gone("u1")
		if pods := d.Pods(); len(pods) > 0 {
			t.Errorf("pods %v", pods)
		}
	})
}

func ready(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

func TestEditReplacesAsSoonAsTheOldHasEnded(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("app", critest.Behaviour{StopAfter: 3 * time.Second})
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.after(20 * time.Second)
		d.config.deliver(file, testPod("web", "u2", "r2"))
		b.after(time.Second)
		if pods := d.Pods(); len(pods) != 2 || pods[0].DeletionTimestamp == nil || pods[1].Status.Phase != v1.PodPending {
			t.Errorf("while it is replaced: %d pods, %+v", len(pods), pods)
		}
		b.until(10*time.Second, "successor runs", func() bool { return b.running("u2") == 1 })
		ended, _ := b.fake.Newest("app")
		var old critest.Container
		for _, c := range b.fake.Containers() {
			if c.UID == "u1" {
				old = c
			}
		}
		if gap := ended.StartedAt.Sub(old.FinishedAt); old.ID != "" && gap > 300*time.Millisecond {
			t.Errorf("successor started %s after its predecessor had ended", gap)
		}
		b.runs("u2")
		b.gone("u1")
	})
}

func TestTwoRevisionsWithinOneGracePeriod(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("app", critest.Behaviour{IgnoreTerm: true})
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		d.config.deliver(file, testPod("web", "u2", "r2"))
		b.after(10 * time.Second)
		d.config.deliver(file, testPod("web", "u3", "r3"))
		b.after(10 * time.Second)
		if b.running("u1") != 1 {
			t.Error("the grace period was cut short")
		}
		b.runs("u3")
		b.gone("u1")
		b.gone("u2")
		if n := b.fake.Starts("u2", "app"); n != 0 {
			t.Error("the revision between was started")
		}
	})
}

func TestRemovedAndAddedAgain(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyNever} {
		t.Run(string(policy), func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				b.fake.Behave("app", critest.Behaviour{StopAfter: 5 * time.Second, TermCode: 143})
				d := b.start()
				pod := testPod("web", "u1", "r1")
				pod.Spec.RestartPolicy = policy
				d.config.deliver(file, pod)
				b.runs("u1")
				d.config.deliver(file)
				b.after(2 * time.Second)
				d.config.deliver(file, pod)
				b.until(20*time.Second, "second run", func() bool { return b.fake.Starts("u1", "app") == 2 })
				b.runs("u1")
				last := b.fake.Sandboxes()
				if got := last[len(last)-1].Attempt; got != 1 {
					t.Errorf("sandbox attempt %d, want 1", got)
				}
				c, _ := b.fake.Newest("app")
				if got := c.Config.LogPath; got != "app/1.log" {
					t.Errorf("log %s, want the next number", got)
				}
				b.after(10 * time.Minute)
				if n := b.fake.Starts("u1", "app"); n != 2 {
					t.Errorf("started %d times", n)
				}
			})
		})
	}
}

func TestAdoptionChangesNothing(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		pods := []*v1.Pod{testPod("a", "ua", "r1"), testPod("b", "ub", "r1"), testPod("job", "uj", "r1")}
		pods[2].Spec.RestartPolicy = v1.RestartPolicyNever
		b.fake.Behave("job/app", critest.Behaviour{RunFor: 5 * time.Second})
		d.config.deliver(file, pods...)
		b.after(time.Minute)
		b.fake.Kill("a/app")
		b.runs("ua")
		b.after(time.Minute)
		before := map[types.UID]v1.PodStatus{}
		for _, pod := range d.Pods() {
			before[pod.UID] = pod.Status
		}
		if phase := before["uj"].Phase; phase != v1.PodSucceeded {
			t.Fatalf("job is %s", phase)
		}
		n := len(b.fake.Writes())
		for range 3 {
			d = b.restart(pods...)
			b.after(3 * time.Minute)
			b.noWrites(n)
			for _, pod := range d.Pods() {
				was := before[pod.UID]
				if pod.Status.Phase != was.Phase || !pod.Status.StartTime.Equal(was.StartTime) ||
					pod.Status.ContainerStatuses[0].RestartCount != was.ContainerStatuses[0].RestartCount ||
					ready(pod) != slices.ContainsFunc(was.Conditions,
						func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue }) {
					t.Errorf("status of %s after a restart:\n%+v\nbefore:\n%+v", pod.Name, pod.Status, was)
				}
			}
		}
	})
}

func TestFixedUIDEditReplaces(t *testing.T) {
	for _, away := range []string{"daemon runs", "daemon is away"} {
		t.Run(away, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				d := b.start()
				d.config.deliver(file, testPod("web", "fixed", "r1"))
				b.runs("fixed")
				b.after(time.Minute)
				edited := testPod("web", "fixed", "r2")
				edited.Spec.Containers[0].Command = []string{"other"}
				if away == "daemon runs" {
					d.config.deliver(file, edited)
				} else {
					b.restart(edited)
				}
				b.until(time.Minute, "edited pod runs", func() bool {
					c, _ := b.fake.Newest("app")
					return c.Running() && slices.Equal(c.Config.Command, []string{"other"})
				})
				b.runs("fixed")
				b.after(5 * time.Minute)
				if n := b.fake.Starts("fixed", "app"); n != 2 {
					t.Errorf("started %d times, want 2", n)
				}
				sandboxes := b.fake.Sandboxes()
				if got := sandboxes[len(sandboxes)-1].Attempt; got != 1 {
					t.Errorf("sandbox attempt %d", got)
				}
			})
		})
	}
}

func TestImageEditUnderAFixedUIDRestartsTheContainer(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, testPod("web", "fixed", "r1"))
		b.runs("fixed")
		edited := testPod("web", "fixed", "r1")
		edited.Annotations[podinfo.AnnotationHash] = "r1 with img:2"
		edited.Spec.Containers[0].Image = "img:2"
		d.config.deliver(file, edited)
		b.until(time.Minute, "new image runs", func() bool {
			c, _ := b.fake.Newest("app")
			return c.Running() && c.Config.Image.UserSpecifiedImage == "img:2"
		})
		if len(b.fake.Sandboxes()) != 1 {
			t.Error("the sandbox was replaced")
		}
	})
}

func TestForeignPodOfTheSameName(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		id := b.fake.Put(critest.Pod{UID: "foreign", Name: "etcd", Namespace: "default", Containers: []string{"etcd"}})
		d := b.start()
		d.config.deliver(file, testPod("etcd", "u1", "r1"), testPod("web", "u2", "r1"))
		b.runs("u2")
		b.after(5 * time.Minute)
		st := d.status("u1")
		if b.running("u1") != 0 || st.Phase != v1.PodPending || st.Reason != podworkers.ReasonNameTaken {
			t.Fatalf("pod did not wait: %+v", st)
		}
		if !strings.Contains(st.Message, "crictl stopp "+id) {
			t.Errorf("message %q does not state how to remove it", st.Message)
		}
		at := time.Now()
		b.fake.EndPod("foreign")
		b.until(20*time.Second, "pod runs", func() bool { return b.running("u1") == 1 })
		if waited := time.Since(at); waited > 2*time.Second && b.generic {
			t.Errorf("started %s after the other had ended", waited)
		}
	})
}

func TestOrphansAreTerminated(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start(manifest.SourceFile, manifest.SourceHTTP)
		d.config.deliver(manifest.SourceFile, testPod("a", "ua", "r1"))
		d.config.deliver(manifest.SourceHTTP, testPod("b", "ub", "r1"))
		b.runs("ua")
		b.runs("ub")
		foreign := b.fake.Put(critest.Pod{UID: "foreign", Name: "x", Namespace: "default", Containers: []string{"x"}})
		b.kill()

		// No source has delivered: nothing is touched.
		n := len(b.fake.Writes())
		d = b.start(manifest.SourceFile, manifest.SourceHTTP)
		b.after(5 * time.Minute)
		b.noWrites(n)

		// The file source wants nothing. Its pod is terminated, the
		// other one keeps running.
		d.config.deliver(manifest.SourceFile)
		b.gone("ua")
		b.after(5 * time.Minute)
		if b.running("ub") != 1 {
			t.Error("a pod of a source that has not delivered was terminated")
		}
		// A restored set is not a delivery.
		n = len(b.fake.Writes())
		d.config.restore(manifest.SourceHTTP)
		b.after(5 * time.Minute)
		b.noWrites(n)
		d.config.deliver(manifest.SourceHTTP)
		b.gone("ub")
		if b.running("foreign") != 1 {
			t.Errorf("pod %s of another client was terminated", foreign)
		}
	})
}

func TestPodOfAnUnknownSourceWaitsForAll(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Put(critest.Pod{UID: "old", Name: "x", Namespace: "default", Instance: critest.Instance,
			Containers: []string{"x"}})
		d := b.start(manifest.SourceFile, manifest.SourceHTTP)
		d.config.deliver(manifest.SourceFile)
		b.after(time.Minute)
		if b.running("old") != 1 {
			t.Error("terminated before all sources had delivered")
		}
		d.config.deliver(manifest.SourceHTTP)
		b.gone("old")
	})
}

// k/k#112814: a manifest that was edited while the daemon was not running.
func TestEditWhileTheDaemonIsAway(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.kill()
		d = b.start()
		// From the checkpoint: it may be newer than the running
		// revision, but the source has not confirmed it.
		d.config.restore(file, testPod("web", "u2", "r2"))
		b.after(time.Minute)
		if b.running("u1") != 1 || b.running("u2") != 0 {
			t.Errorf("%d of the old, %d of the new revision run", b.running("u1"), b.running("u2"))
		}
		d.config.deliver(file, testPod("web", "u2", "r2"))
		b.runs("u2")
		b.gone("u1")
	})
}

func TestOrphanGetsTheGraceOnItsContainers(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("app", critest.Behaviour{IgnoreTerm: true})
		d := b.start()
		pod := testPod("db", "u1", "r1")
		grace := int64(90)
		pod.Spec.TerminationGracePeriodSeconds = &grace
		d.config.deliver(file, pod)
		b.runs("u1")
		b.kill()
		d = b.start()
		at := time.Now()
		d.config.deliver(file)
		if b.until(2*time.Minute, "orphan terminated",
			func() bool { return b.running("u1") == 0 }); time.Since(at) < 90*time.Second {
			t.Errorf("orphan was killed after %s", time.Since(at))
		}
		b.gone("u1")
	})
}

func TestCrashLoopBackoffOutlivesTheDaemon(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("app", critest.Behaviour{RunFor: time.Second, ExitCode: 1})
		d := b.start()
		pod := testPod("web", "u1", "r1")
		d.config.deliver(file, pod)
		b.after(4 * time.Minute)
		starts := b.fake.Starts("u1", "app")
		if starts < 4 || starts > 7 {
			t.Fatalf("%d starts in 4 minutes", starts)
		}
		for range 10 {
			d = b.restart(pod)
			b.after(time.Second)
		}
		if n := b.fake.Starts("u1", "app"); n > starts+1 {
			t.Errorf("%d more starts within 10 s: the back-off was lost", n-starts)
		}
		st := d.status("u1").ContainerStatuses[0]
		if st.State.Waiting == nil || st.State.Waiting.Reason != "CrashLoopBackOff" || int(st.RestartCount) < starts-1 {
			t.Errorf("status %+v", st)
		}
	})
}

func TestDeadInstancesAreTrimmed(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		for range 5 {
			b.fake.Exit("app", 1)
			b.after(15 * time.Minute)
		}
		if n := len(b.fake.Containers()); n != 2 {
			t.Errorf("%d instances are kept, want the running and the previous one\n%s", n, b.fake.Dump())
		}
		logs, err := os.ReadDir(b.path("logs/default_web_u1/app"))
		if err != nil || len(logs) != 2 || logs[1].Name() != "5.log" {
			t.Errorf("logs %v %v", logs, err)
		}
		messages, err := os.ReadDir(b.path("pods/u1/containers/app"))
		if err != nil || len(messages) != 2 {
			t.Errorf("termination messages %v %v", messages, err)
		}
		links, err := os.ReadDir(b.path("links"))
		if err != nil || len(links) != 2 {
			t.Errorf("links %v %v", links, err)
		}
	})
}

func TestRuntimeDownAndUp(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, testPod("a", "ua", "r1"))
		b.runs("ua")
		b.fake.Down()
		b.after(time.Minute)
		d.config.deliver(file, testPod("a", "ua", "r1"), testPod("b", "ub", "r1"))
		b.after(20 * time.Minute)
		if err := d.SyncLoopHealthy(); err != nil {
			t.Errorf("a runtime that is down counts as a hung loop: %v", err)
		}
		if n := strings.Count(d.log.String(), "runtime is not healthy"); n != 1 {
			t.Errorf("logged %d times that the runtime is down", n)
		}
		if len(d.Pods()) != 2 {
			t.Error("a pod that was added in the meantime is not shown")
		}
		n := b.fake.Starts("ua", "app")
		b.fake.Up()
		if took := b.runs("ub"); took > 10*time.Second {
			t.Errorf("pod started %s after the runtime was back", took)
		}
		if b.fake.Starts("ua", "app") != n {
			t.Error("a running pod was started again")
		}
	})
}

func TestReboot(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("web", "u1", "r1")
		d := b.start()
		d.config.deliver(file, pod)
		b.runs("u1")
		b.kill()
		b.fake.Reboot()
		d = b.start()
		d.config.deliver(file, pod)
		b.runs("u1")
		b.until(time.Minute, "restart is counted",
			func() bool { return d.status("u1").ContainerStatuses[0].RestartCount == 1 })
	})
}

func TestNetworkNotReady(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetNetworkReady("cni plugin not initialized")
		d := b.start()
		host := testPod("host", "uh", "r1")
		host.Spec.HostNetwork = true
		d.config.deliver(file, host, testPod("web", "u1", "r1"))
		b.runs("uh")
		b.after(time.Minute)
		st := d.status("u1")
		if b.running("u1") != 0 || st.Reason != reasonNetworkNotReady || !strings.Contains(st.Message, "cni plugin") {
			t.Errorf("status %+v", st)
		}
		b.fake.SetNetworkReady("")
		if took := b.runs("u1"); took > 7*time.Second {
			t.Errorf("started %s after the network was ready", took)
		}
	})
}

func TestVolumeFault(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		kind := v1.HostPathDirectory
		pod := testPod("web", "u1", "r1")
		pod.Spec.Volumes = []v1.Volume{
			{Name: "data", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: b.path("late"), Type: &kind}}}}
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		d.config.deliver(file, pod)
		b.after(time.Minute)
		if b.running("u1") != 0 {
			t.Fatal("pod runs without its volume")
		}
		if n := strings.Count(d.log.String(), "does not exist"); n > 2 {
			t.Errorf("logged %d times", n)
		}
		if !slices.ContainsFunc(d.events.List(), func(e v1.Event) bool { return e.Reason == podinputs.ReasonFailedMount }) {
			t.Error("no event")
		}
		if err := os.Mkdir(b.path("late"), 0o755); err != nil {
			t.Fatal(err)
		}
		b.runs("u1")
	})
}

func TestManifestFaultIsShown(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.after(10 * time.Second)
		n := len(b.fake.Writes())
		shown := func() bool {
			return slices.ContainsFunc(d.Pods()[0].Status.Conditions, func(c v1.PodCondition) bool {
				return c.Type == "podstead.io/ManifestFault" && c.Status == v1.ConditionTrue &&
					strings.Contains(c.Message, "web.yaml:3")
			})
		}
		d.config.fault("u1", "web.yaml:3: no such field")
		b.after(time.Second)
		if !shown() {
			t.Errorf("conditions %+v", d.Pods()[0].Status.Conditions)
		}
		d.config.fault("u1", "")
		b.after(time.Second)
		if shown() {
			t.Error("the fault is still shown")
		}
		b.noWrites(n)
	})
}

func TestRemainsOfADaemonThatWasEnded(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.kill()
		b.fake.EndPod("u1")
		// A kubelet's logs are named like ours.
		for _, dir := range []string{"logs/default_other_u9", "pods/not a uid"} {
			if err := os.MkdirAll(b.path(dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		d = b.start()
		b.after(time.Minute)
		if _, err := os.Stat(b.path("pods/u1")); err != nil {
			t.Error("removed before the source had delivered")
		}
		d.config.deliver(file)
		b.gone("u1")
		for _, dir := range []string{"logs/default_other_u9", "pods/not a uid"} {
			if _, err := os.Stat(b.path(dir)); err != nil {
				t.Errorf("a foreign file was removed: %v", err)
			}
		}
	})
}

func TestLostReplies(t *testing.T) {
	for _, method := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
		for name, fault := range map[string]critest.Fault{
			"error before":     {Before: critest.Err(codes.Unavailable, "no")},
			"error after":      {After: critest.Err(codes.DeadlineExceeded, "lost")},
			"disconnect":       {Disconnect: true},
			"disconnect after": {DisconnectAfter: true},
			"hang":             {Hang: true},
			"hang after":       {HangAfter: true},
		} {
			t.Run(filepath.Join(method, name), func(t *testing.T) {
				withTestbed(t, func(t *testing.T, b *supervisorHarness) {
					injected := b.fake.Inject(method, fault)
					d := b.start()
					d.config.deliver(file, testPod("web", "u1", "r1"))
					b.runs("u1")
					if injected.Hits() != 1 {
						t.Error("the fault was not triggered")
					}
					b.after(5 * time.Minute)
					ready := 0
					for _, s := range b.fake.Sandboxes() {
						if s.Ready {
							ready++
						}
					}
					if ready != 1 || b.running("u1") != 1 {
						t.Errorf("%d sandboxes, %d containers\n%s", ready, b.running("u1"), b.fake.Dump())
					}
				})
			})
		}
	}
}

func TestKillWithLostReplies(t *testing.T) {
	for _, method := range []string{"StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"} {
		for name, fault := range map[string]critest.Fault{
			"error before": {Before: critest.Err(codes.Unavailable, "no"), Times: 2},
			"error after":  {After: critest.Err(codes.DeadlineExceeded, "lost")},
			"disconnect":   {DisconnectAfter: true},
		} {
			t.Run(filepath.Join(method, name), func(t *testing.T) {
				withTestbed(t, func(t *testing.T, b *supervisorHarness) {
					d := b.start()
					d.config.deliver(file, testPod("web", "u1", "r1"))
					b.runs("u1")
					b.fake.Inject(method, fault)
					d.config.deliver(file, testPod("web", "u2", "r2"))
					b.runs("u2")
					b.gone("u1")
				})
			})
		}
	}
}

func TestStaleLists(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.fake.StaleLists(6)
		d.config.deliver(file, testPod("web", "u2", "r2"))
		b.runs("u2")
		b.gone("u1")
		if n := b.fake.Starts("u2", "app"); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

func TestDroppedAndDoubledEvents(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		b.fake.DoubleEvents(20)
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.after(10 * time.Second)
		b.fake.DropEvents(1)
		b.fake.Kill("app")
		b.until(2*time.Minute, "restarted", func() bool { return b.fake.Starts("u1", "app") == 2 })
		b.fake.BreakEvents()
		b.after(11 * time.Minute)
		b.fake.Kill("app")
		b.until(2*time.Minute, "restarted", func() bool { return b.fake.Starts("u1", "app") == 3 })
		b.runs("u1")
		if n := b.fake.Starts("u1", "app"); n != 3 {
			t.Errorf("started %d times", n)
		}
	})
}

func TestRestartVerb(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.after(time.Second)
		if err := d.Restart("u1", "requested by a user", time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		b.until(time.Minute, "ended", func() bool { return b.running("u1") == 0 })
		b.after(30 * time.Second)
		if b.running("u1") != 0 {
			t.Error("ran too early")
		}
		b.runs("u1")
		if n := d.status("u1").ContainerStatuses[0].RestartCount; n != 1 {
			t.Errorf("restart count %d", n)
		}
		job := testPod("job", "uj", "r1")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		b.fake.Behave("job/app", critest.Behaviour{RunFor: time.Second})
		d.config.deliver(file, testPod("web", "u1", "r1"), job)
		b.after(time.Minute)
		if st := d.status("uj"); st.Phase != v1.PodSucceeded || b.fake.Starts("uj", "app") != 1 {
			t.Fatalf("the job is %s", st.Phase)
		}
		if err := d.Restart("uj", "asked", time.Time{}); err != nil {
			t.Fatal(err)
		}
		b.until(time.Minute, "started again", func() bool { return b.fake.Starts("uj", "app") == 2 })
		b.until(time.Minute, "succeeded again", func() bool { return d.status("uj").Phase == v1.PodSucceeded })
		if n := d.status("uj").ContainerStatuses[0].RestartCount; n != 1 {
			t.Errorf("restart count %d", n)
		}
		// Nor does a restart of the daemon run it once more.
		b.kill()
		d = b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"), job)
		b.after(time.Minute)
		if n := b.fake.Starts("uj", "app"); n != 2 || d.status("uj").Phase != v1.PodSucceeded {
			t.Errorf("the job was started %d times, and is %s", n, d.status("uj").Phase)
		}
	})
}

func TestSlowPullDoesNotDelayOthers(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		hold := b.fake.HoldPull("slow:1")
		d := b.start()
		slow := testPod("slow", "us", "r1")
		slow.Spec.Containers[0].Image = "slow:1"
		d.config.deliver(file, slow, testPod("web", "u1", "r1"))
		if took := b.runs("u1"); took > 2*time.Second {
			t.Errorf("the other pod took %s", took)
		}
		// Removing the pod cancels the pull; the pull need not
		// complete.
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.gone("us")
		hold.Release()
	})
}
