package supervisor

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/rollout"
	"github.com/podstead/podstead/supervisor/status"
)

// withImage returns the pod with another image.
func withImage(pod *v1.Pod, image string) *v1.Pod {
	pod.Spec.Containers[0].Image = image
	return pod
}

// held returns the message of the condition that reports that the newest revision of a
// pod's manifest is not in effect; empty if it has none.
func (d *daemon) held(uid types.UID) string {
	for _, c := range d.status(uid).Conditions {
		if c.Type == status.RevisionHeld && c.Status == v1.ConditionTrue {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// only fails unless exactly this revision runs, in one container that was started once.
func (b *supervisorHarness) only(uid types.UID, starts int) {
	b.t.Helper()
	if n := b.fake.Running(); n != 1 || b.running(uid) != 1 || b.fake.Starts(string(uid), "app") != starts {
		b.t.Errorf("%d containers run, of %s %d, which was started %d times\n%s\n%s", n, uid, b.running(uid),
			b.fake.Starts(string(uid), "app"), b.fake.Dump(), b.daemon.log)
	}
}

// awaitHeld waits until the status of a pod specifies that another revision is held.
func (b *supervisorHarness) awaitHeld(uid types.UID, text string) {
	b.t.Helper()
	b.until(5*time.Minute, fmt.Sprintf("pod %s shows %q", uid, text),
		func() bool { return strings.Contains(b.daemon.held(uid), text) })
}

// rollout returns the rollout of a pod.
func (d *daemon) rollout(t testing.TB, name string) api.Rollout {
	t.Helper()
	st, ok := d.rollouts.StatusOf("default/" + name)
	if !ok {
		t.Fatalf("pod %s has no rollout", name)
	}
	return st
}

// warnings returns the messages of the Warning events with a reason.
func (d *daemon) warnings(reason string) (list []string) {
	for _, e := range d.events.List() {
		if e.Reason == reason && e.Type == v1.EventTypeWarning {
			list = append(list, e.Message)
		}
	}
	return list
}

// An image that cannot be pulled leaves the old revision running; the correction goes
// through.
func TestTypoInTheTagLeavesTheOldRevisionRunning(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		b.fake.SetPullable("img:1", "img:2")
		d := b.start()
		d.config.deliver(file, withImage(testPod("web", "u1", "r1"), "img:1"))
		b.runs("u1")
		d.config.deliver(file, withImage(testPod("web", "u2", "r2"), "img:typo"))
		b.awaitHeld("u1", "img:typo")
		b.after(time.Hour)
		b.only("u1", 1)
		if st := d.rollout(t, "web"); st.State != rollout.Preparing || st.Reason != rollout.ReasonPreparing ||
			!strings.Contains(st.Message, "img:typo") {
			t.Errorf("%+v", st)
		}
		if list := d.warnings(rollout.ReasonPreparing); len(list) != 1 || !strings.Contains(list[0], "img:typo") {
			t.Errorf("warnings: %q", list)
		}
		d.config.deliver(file, withImage(testPod("web", "u3", "r3"), "img:2"))
		b.runs("u3")
		b.gone("u1")
		b.only("u3", 1)
		if held := d.held("u3"); held != "" {
			t.Error(held)
		}
		if st := d.rollout(t, "web"); st.State != rollout.Stable {
			t.Errorf("%+v", st)
		}
	})
}

// The old revision runs while the images of the new one are pulled.
func TestOldRevisionRunsDuringThePull(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		for _, policy := range []v1.PullPolicy{v1.PullIfNotPresent, v1.PullAlways} {
			before, uid := d.rollout(t, "web").UID, types.UID("u-"+policy)
			image := "img:" + strings.ToLower(string(policy))
			hold := b.fake.HoldPull(image)
			edited := withImage(testPod("web", uid, string(uid)), image)
			edited.Spec.Containers[0].ImagePullPolicy = policy
			pulls := b.fake.Calls("PullImage")
			d.config.deliver(file, edited)
			b.awaitHeld(before, "Pulling image")
			b.after(10 * time.Minute)
			if b.running(before) != 1 {
				t.Errorf("%s: the old revision does not run during the pull", policy)
			}
			hold.Release()
			b.runs(uid)
			b.gone(before)
			if n := b.fake.Calls("PullImage") - pulls; n != 1 {
				t.Errorf("%s: %d pulls, want 1", policy, n)
			}
			// The image is pulled again when the container restarts.
			b.fake.Exit("web/app", 1)
			b.until(time.Minute, "the container restarts", func() bool { return b.fake.Starts(string(uid), "app") == 2 })
			want := map[v1.PullPolicy]int{v1.PullIfNotPresent: 1, v1.PullAlways: 2}[policy]
			if n := b.fake.Calls("PullImage") - pulls; n != want {
				t.Errorf("%s: %d pulls after a restart, want %d", policy, n, want)
			}
		}
	})
}

// Editing back to what runs touches nothing; a further edit supersedes; removal ends both.
func TestCandidateIsCancelled(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		d := b.start()
		first := testPod("web", "u1", "r1")
		d.config.deliver(file, first)
		b.runs("u1")
		hold := b.fake.HoldPull("img:slow")
		defer hold.Release()
		writes := len(b.fake.Writes())

		d.config.deliver(file, withImage(testPod("web", "u2", "r2"), "img:slow"))
		b.awaitHeld("u1", "img:slow")
		d.config.deliver(file, first)
		b.until(time.Minute, "the pull is cancelled", func() bool { return b.fake.Pulling("img:slow") == 0 })
		b.until(time.Minute, "the condition is gone", func() bool { return d.held("u1") == "" })
		b.noWrites(writes, "PullImage")
		if st := d.rollout(t, "web"); st.State != rollout.Stable || st.Candidate != "" {
			t.Errorf("%+v", st)
		}

		d.config.deliver(file, withImage(testPod("web", "u3", "r3"), "img:slow"))
		b.awaitHeld("u1", "img:slow")
		d.config.deliver(file, testPod("web", "u4", "r4"))
		b.runs("u4")
		b.gone("u1")
		if n := b.fake.Pulling("img:slow"); n != 0 {
			t.Errorf("%d pulls of the superseded revision go on", n)
		}

		d.config.deliver(file, withImage(testPod("web", "u5", "r5"), "img:slow"))
		b.awaitHeld("u4", "img:slow")
		d.config.deliver(file)
		b.gone("u4")
		b.until(time.Minute, "the pull is cancelled", func() bool { return b.fake.Pulling("img:slow") == 0 })
		if n := b.fake.Running(); n != 0 || len(d.rollouts.Rollouts()) != 0 {
			t.Errorf("%d containers run; %v", n, d.rollouts.Rollouts())
		}
		b.after(time.Minute)
		if entries, err := os.ReadDir(b.path("rollouts")); err != nil || len(entries) > 0 {
			t.Errorf("files of rollouts are left: %v, %v", entries, err)
		}
	})
}

// An edit under a uid that the manifest sets is prepared as well.
func TestEditUnderOneUIDIsPrepared(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		for _, template := range []string{"r1", "r2"} {
			d := b.restart(testPod("web", "fixed", "r1"))
			b.runs("fixed")
			starts := b.fake.Starts("fixed", "app")
			edited := withImage(testPod("web", "fixed", "edited"+template), "img:"+template)
			edited.Annotations[podinfo.AnnotationTemplate] = template
			hold := b.fake.HoldPull("img:" + template)
			d.config.deliver(file, edited)
			b.awaitHeld("fixed", "Pulling image")
			b.after(time.Minute)
			b.only("fixed", starts)
			hold.Release()
			b.until(time.Minute, "the new image runs", func() bool {
				c, ok := b.fake.Newest("web/app")
				return ok && c.Running() && strings.Contains(c.Config.Image.UserSpecifiedImage, template)
			})
			b.after(time.Minute)
			b.only("fixed", starts+1)
			d.config.deliver(file)
			b.gone("fixed")
		}
	})
}

// podstead.io/replace: kubelet ends the old revision first.
func TestReplaceAsTheKubelet(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		hold := b.fake.HoldPull("img:2")
		edited := withImage(testPod("web", "u2", "r2"), "img:2")
		edited.Annotations[podinfo.AnnotationReplace] = podinfo.ReplaceKubelet
		d.config.deliver(file, edited)
		b.gone("u1")
		if n := b.fake.Running(); n != 0 {
			t.Errorf("%d containers run", n)
		}
		hold.Release()
		b.runs("u2")
		b.only("u2", 1)
		// Also after an edit while the daemon was away.
		b.kill()
		edited = testPod("web", "u3", "r3")
		edited.Annotations[podinfo.AnnotationReplace] = podinfo.ReplaceKubelet
		b.restart(edited)
		b.gone("u2")
		b.runs("u3")
	})
}

// A request tries a revision at once whose pull is in back-off, and the message of one that
// cannot be prepared names the annotation that does not wait for it.
func TestRetryPullsAtOnce(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		b.fake.SetPullable("img:1")
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		d.config.deliver(file, withImage(testPod("web", "u2", "r2"), "img:late"))
		b.awaitHeld("u1", "podstead.io/replace: kubelet")
		// The back-off is at its limit.
		b.after(30 * time.Minute)
		pulls := b.fake.Calls("PullImage")
		b.until(10*time.Minute, "it is pulled again", func() bool { return b.fake.Calls("PullImage") > pulls })
		b.after(10 * time.Second)
		b.fake.SetPullable("img:1", "img:late")
		if b.after(time.Minute); b.running("u1") != 1 {
			t.Fatal("the back-off is shorter than a minute")
		}
		if err := d.rollouts.Retry("default/web"); err != nil {
			t.Fatal(err)
		}
		if took := b.runs("u2"); took > 5*time.Second {
			t.Errorf("the image was pulled %s after the request", took)
		}
	})
}

// A daemon that was killed while it prepared a revision adopts the old one and goes on.
func TestDaemonKilledDuringPreparation(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.after(5 * time.Second) // the rollout is stored
		hold := b.fake.HoldPull("img:2")
		edited := withImage(testPod("web", "u2", "r2"), "img:2")
		d.config.deliver(file, edited)
		b.awaitHeld("u1", "img:2")
		for range 3 {
			b.sigkill()
			d = b.start()
			d.config.deliver(file, edited)
			b.awaitHeld("u1", "img:2")
			b.only("u1", 1)
		}
		// Edited while the daemon is away.
		b.sigkill()
		hold.Release()
		third := withImage(testPod("web", "u3", "r3"), "img:3")
		hold = b.fake.HoldPull("img:3")
		d = b.start()
		d.config.restore(file, edited)
		d.config.deliver(file, third)
		b.awaitHeld("u1", "img:3")
		b.only("u1", 1)
		hold.Release()
		b.runs("u3")
		b.gone("u1")
		b.only("u3", 1)
		if n := b.fake.Starts("u2", "app"); n != 0 {
			t.Errorf("the superseded revision was started %d times", n)
		}
	})
}

// A source that never becomes complete, because one of its artifacts is away, lets those
// edits come into effect that were read.
func TestEditInAnIncompleteSource(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.after(5 * time.Second)
		b.kill()
		d = b.start()
		d.config.restore(file, testPod("web", "u2", "r2"))
		b.after(time.Minute)
		b.only("u1", 1)
		d.config.setRead("u2")
		d.config.fault("", "")
		b.runs("u2")
		b.only("u2", 1)
	})
}

// After a boot the old revision starts again, if the new one was not prepared before.
func TestRebootDuringPreparation(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		b.fake.SetPullable("img:1")
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.after(5 * time.Second)
		edited := withImage(testPod("web", "u2", "r2"), "img:typo")
		d.config.deliver(file, edited)
		b.awaitHeld("u1", "img:typo")
		b.sigkill()
		b.fake.Reboot()
		b.start().config.deliver(file, edited)
		b.runs("u1")
		b.awaitHeld("u1", "img:typo")
		b.fake.SetPullable("img:1", "img:typo")
		b.runs("u2")
		b.gone("u1")
		b.only("u2", 1)
	})
}

// An edit while the daemon is away is prepared too. A manifest that was removed in the
// meantime ends the pod.
func TestEditWhileAwayIsPrepared(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		b.fake.SetPullable("img:1")
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"), testPod("db", "db-uid", "r1"))
		b.runs("u1")
		b.runs("db-uid")
		b.kill()
		d = b.start()
		d.config.deliver(file, withImage(testPod("web", "u2", "r2"), "img:typo"))
		b.awaitHeld("u1", "img:typo")
		b.gone("db-uid")
		b.after(time.Minute)
		b.only("u1", 1)
		if _, err := os.Stat(b.path("rollouts/default/db")); !os.IsNotExist(err) {
			t.Errorf("the rollout of a pod that is gone is left: %v", err)
		}
	})
}

// A predecessor of which nothing runs and that never worked holds nothing back.
func TestBrokenPredecessorIsReplacedAtOnce(t *testing.T) {
	for name, breakPod := range map[string]func(b *supervisorHarness, pod *v1.Pod){
		"never started": func(b *supervisorHarness, pod *v1.Pod) { withImage(pod, "img:typo") },
		"crash loop": func(b *supervisorHarness, pod *v1.Pod) {
			b.fake.Behave("app", critest.Behaviour{RunFor: time.Second, ExitCode: 1})
			pod.Spec.Containers[0].ReadinessProbe = execProbe(1, 3, "never")
		},
		"failed": func(b *supervisorHarness, pod *v1.Pod) {
			b.fake.Behave("app", critest.Behaviour{RunFor: time.Second, ExitCode: 1})
			pod.Spec.RestartPolicy = v1.RestartPolicyNever
		},
		"succeeded": func(b *supervisorHarness, pod *v1.Pod) {
			b.fake.Behave("app", critest.Behaviour{RunFor: time.Second})
			pod.Spec.RestartPolicy = v1.RestartPolicyNever
		},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				b.fake.SetImages("img:1")
				b.fake.SetPullable("img:1")
				answering(b.fake).fail("never", true)
				d := b.start()
				pod := testPod("web", "u1", "r1")
				breakPod(b, pod)
				d.config.deliver(file, pod)
				b.after(2 * time.Minute)
				b.fake.Behave("app", critest.Behaviour{})
				// It cannot be prepared either, and shows that itself.
				d.config.deliver(file, withImage(testPod("web", "u2", "r2"), "img:typo2"))
				b.gone("u1")
				b.until(time.Minute, "the status of the new revision", func() bool {
					st := d.status("u2")
					return len(st.ContainerStatuses) == 1 && st.ContainerStatuses[0].State.Waiting != nil &&
						strings.Contains(st.ContainerStatuses[0].State.Waiting.Message, "typo2")
				})
				d.config.deliver(file, testPod("web", "u3", "r3"))
				b.runs("u3")
			})
		})
	}
}

// A container that worked and is between two restarts is not given up for a revision that
// cannot be prepared.
func TestCrashDoesNotLetATypoThrough(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		b.fake.SetPullable("img:1")
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		d.config.deliver(file, withImage(testPod("web", "u2", "r2"), "img:typo"))
		b.awaitHeld("u1", "img:typo")
		for range 5 {
			b.fake.Exit("web/app", 1)
			b.after(time.Minute)
		}
		b.after(10 * time.Minute)
		if b.running("u1") != 1 || b.fake.Starts("u2", "app") != 0 {
			t.Errorf("%d of the old revision run\n%s", b.running("u1"), d.log)
		}
	})
}

// What the predecessor has of the node does not count against its replacement, and what
// others have does.
func TestAdmissionIsJudgedWithoutThePredecessor(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		b.allocatable = cpus("4")
		sized := func(uid types.UID, cpu string) *v1.Pod {
			pod := testPod("web", uid, string(uid))
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
			pod.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
			return pod
		}
		other := testPod("other", "o1", "r1")
		other.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		d := b.start()
		d.config.deliver(file, sized("u1", "2"), other)
		b.runs("u1")
		b.runs("o1")
		d.config.deliver(file, sized("u2", "3"), other)
		b.runs("u2")
		b.gone("u1")
		d.config.deliver(file, sized("u3", "4"), other)
		b.awaitHeld("u2", "not enough cpu")
		b.after(time.Minute)
		if b.running("u2") != 1 {
			t.Error("the pod was ended for a revision that does not fit")
		}
		d.config.deliver(file, sized("u3", "4"))
		b.runs("u3")
		b.gone("u2")
	})
}

// A node that does not start pods now, as under pressure, does not end them either.
func TestClosedGateHoldsTheCandidate(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		closed := false
		b.gates = []Gate{func(*v1.Pod) *status.Cause {
			if closed {
				return &status.Cause{Reason: "DiskPressure", Message: "the disk is full"}
			}
			return nil
		}}
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		closed = true
		d.config.deliver(file, testPod("web", "u2", "r2"))
		b.awaitHeld("u1", "the disk is full")
		b.only("u1", 1)
		closed = false
		d.RetryHeld()
		if took := b.runs("u2"); took > 5*time.Second {
			t.Errorf("the revision came into effect %s after the pressure had passed", took)
		}
	})
}

// Pods pass the room of rollouts in the same order and state as without it.
func TestMovesAreNoEdits(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		d := b.start(file, manifest.SourceHTTP)
		d.config.deliver(manifest.SourceHTTP)
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		// Another pod takes the UID, and another UID the name.
		before, replaced := testPod("web", "u1", "r1"), map[types.UID]bool{"u1": true}
		for _, u := range []manifest.PodUpdate{
			{Op: manifest.Remove, Source: file, Pods: []*v1.Pod{before}, Replaced: replaced, Successors: replaced},
			{Op: manifest.Add, Source: file, Pods: []*v1.Pod{testPod("api", "u1", "r1"), testPod("web", "u2", "r1")}},
		} {
			d.config.updates <- u
		}
		b.runs("u2")
		b.until(time.Minute, "the UID runs under its new name", func() bool { return b.fake.RunningOf("api") == 1 })
		b.after(time.Minute)
		if n, m := b.fake.Running(), len(d.Pods()); n != 2 || m != 2 {
			t.Errorf("%d containers run, %d pods are shown\n%s\n%s", n, m, b.fake.Dump(), d.log)
		}
	})
}

// A revision that depends on a pod that is not Ready comes into effect as soon as it is,
// although nothing is done for it in the meantime.
func TestDependencyOfACandidateBecomesReady(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		b.node.Name = "n1"
		answering(b.fake)
		db := testPod("db-n1", "d1", "r1")
		readyAfter(db, 3000)
		d := b.start()
		d.config.deliver(file, testPod("web-n1", "u1", "r1"), db)
		b.runs("u1")
		web := testPod("web-n1", "u2", "r2")
		web.Annotations[podinfo.AnnotationDependsOn] = "db"
		d.config.deliver(file, web, db)
		b.awaitHeld("u1", "db")
		b.after(40 * time.Minute)
		if b.running("u1") != 1 {
			t.Error(b.fake.Dump())
		}
		if took := b.until(20*time.Minute, "u2 runs", func() bool { return b.running("u2") == 1 }); took > 10*time.Minute+
			30*time.Second {
			t.Errorf("after %s more", took)
		}
	})
}

// A revision that depends on what does not exist ends nothing, and one that depends on a
// pod of the same change waits for it.
func TestDependenciesArePrepared(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		b.node.Name = "n1"
		after := func(uid types.UID, name string) *v1.Pod {
			pod := testPod("web-n1", uid, string(uid))
			pod.Annotations[podinfo.AnnotationDependsOn] = name
			return pod
		}
		d := b.start()
		d.config.deliver(file, testPod("web-n1", "u1", "r1"))
		b.runs("u1")
		d.config.deliver(file, after("u2", "typo"))
		b.awaitHeld("u1", "typo")
		b.only("u1", 1)
		d.config.deliver(file, after("u3", "db"), testPod("db-n1", "d1", "r1"))
		b.runs("u3")
		if b.running("d1") != 1 || b.running("u1") != 0 {
			t.Error(b.fake.Dump())
		}
	})
}
