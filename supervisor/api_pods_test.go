package supervisor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// boundPod returns a pod as a cluster binds it to the node.
func boundPod(name string, uid types.UID) *v1.Pod {
	pod := testPod(name, uid, "")
	pod.Annotations = map[string]string{podinfo.AnnotationSource: string(manifest.SourceAPI)}
	pod.Generation = 1
	pod.Spec.NodeName = "n"
	pod.Status = v1.PodStatus{Phase: v1.PodPending,
		Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}}
	return pod
}

// update delivers one change of an API pod.
func (c *fakeConfig) update(op manifest.Op, pod *v1.Pod) {
	c.updates <- manifest.PodUpdate{Op: op, Source: manifest.SourceAPI, Pods: []*v1.Pod{pod.DeepCopy()}}
}

// An API pod that does not pass admission is Failed for good: its controller
// creates another one.
func TestAPIPodIsRejected(t *testing.T) {
	for name, test := range map[string]struct {
		change func(b *supervisorHarness, pod *v1.Pod)
		reason string
	}{
		"a taint": {func(b *supervisorHarness, pod *v1.Pod) {
			b.taints = func() []v1.Taint { return []v1.Taint{{Key: "only", Effect: v1.TaintEffectNoExecute}} }
		}, admit.ReasonTaint},
		"another operating system": {func(_ *supervisorHarness, pod *v1.Pod) { pod.Spec.OS = &v1.PodOS{Name: v1.Windows} },
			admit.ReasonOS},
		"no such node": {func(b *supervisorHarness, pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "ssd"} },
			admit.ReasonAffinity},
		"no room": {func(b *supervisorHarness, pod *v1.Pod) {
			b.allocatable = cpus("1")
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
		}, outOfCPU},
		"no room, critical": {func(b *supervisorHarness, pod *v1.Pod) {
			b.allocatable = cpus("1")
			critical := int32(2_000_000_000)
			pod.Spec.Priority, pod.Spec.Containers[0].Resources.Requests = &critical,
				v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
		}, outOfCPU},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				pod := boundPod("p", "u1")
				test.change(b, pod)
				d := b.start(manifest.SourceAPI)
				check := func() {
					t.Helper()
					synctest.Wait()
					st := d.status(pod.UID)
					if st.Phase != v1.PodFailed || st.Reason != test.reason || !strings.HasPrefix(st.Message, "Pod was rejected: ") ||
						len(st.ContainerStatuses) != 0 || isTarget(st) {
						t.Errorf("status %+v", st)
					}
					if b.fake.Calls("RunPodSandbox") != 0 {
						t.Error("it was given a sandbox")
					}
				}
				d.config.deliver(manifest.SourceAPI, pod)
				b.until(time.Minute, "it has ended", func() bool { return d.Ended(pod.UID) })
				check()
				if len(d.eventsOf(pod, test.reason)) != 1 {
					t.Errorf("events %q", d.eventsOf(pod, test.reason))
				}
				b.after(time.Hour)
				check()
				// Room that becomes free later is not for it.
				b.allocatable, b.node.Labels = nil, map[string]string{"disk": "ssd"}
				b.kill()
				d = b.start(manifest.SourceAPI)
				d.config.deliver(manifest.SourceAPI, pod)
				b.after(time.Minute)
				check()
			})
		})
	}
}

// A pod that needs an unsupported feature is held, and its status shows why: if
// it failed, its controller would create the next one at once.
func TestBoundPodThatCannotRun(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod, other := boundPod("p", "u1"), boundPod("other", "v")
		pod.Spec.Volumes = []v1.Volume{
			{Name: "disk", VolumeSource: v1.VolumeSource{RBD: &v1.RBDVolumeSource{RBDImage: "data"}}}}
		d := b.start(manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, pod, other)
		b.runs(other.UID)
		b.after(time.Hour)
		st := d.status(pod.UID)
		if st.Phase != v1.PodPending || st.Reason != reasonUnsupported ||
			!strings.Contains(st.Message, "spec.volumes[0].rbd") || b.running(pod.UID) != 0 {
			t.Errorf("status %+v", st)
		}
		if len(d.eventsOf(pod, reasonUnsupported)) != 1 {
			t.Errorf("events %q", d.eventsOf(pod, reasonUnsupported))
		}
	})
}

// Of two pods with one name the static one runs, whichever came first.
func TestBoundPodWithAStaticPodsName(t *testing.T) {
	for name, boundFirst := range map[string]bool{"the cluster's comes first": true, "the manifest's comes first": false} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				static, bound := testPod("p", "s", "1"), boundPod("p", "u1")
				d := b.start(manifest.SourceFile, manifest.SourceAPI)
				if boundFirst {
					d.config.deliver(manifest.SourceAPI, bound)
					b.runs(bound.UID)
					d.config.deliver(manifest.SourceFile, static)
				} else {
					d.config.deliver(manifest.SourceFile, static)
					b.runs(static.UID)
					d.config.deliver(manifest.SourceAPI, bound)
				}
				b.runs(static.UID)
				b.until(time.Minute, "the other has ended", func() bool { return d.Ended(bound.UID) })
				if st := d.status(bound.UID); st.Phase != v1.PodFailed || st.Reason != podworkers.ReasonNameTaken ||
					boundFirst == (len(st.ContainerStatuses) == 0) {
					t.Errorf("status %+v", st)
				}
				if b.running(bound.UID) != 0 || len(d.eventsOf(bound, podworkers.ReasonNameTaken)) != 1 {
					t.Errorf("%d run; events %q", b.running(bound.UID), d.eventsOf(bound, podworkers.ReasonNameTaken))
				}
			})
		})
	}
}

// A pod that has terminated in the API is not run, whatever the local state is,
// and a running pod that terminates there is terminated here.
func TestBoundPodThatHasEndedInTheAPI(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		job, pod := boundPod("job", "j"), boundPod("p", "u1")
		job.Status.Phase = v1.PodSucceeded
		began := metav1.NewTime(time.Now().Add(-time.Hour)).Rfc3339Copy()
		job.Status.StartTime = &began
		job.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", RestartCount: 3,
			State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 0, Reason: "Completed"}}}}
		d := b.start(manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, job, pod)
		b.runs(pod.UID)
		b.until(time.Minute, "the job is over", func() bool { return d.Ended(job.UID) })
		st := d.status(job.UID)
		if b.fake.Calls("RunPodSandbox") != 1 || st.Phase != v1.PodSucceeded || !st.StartTime.Equal(&began) ||
			st.ContainerStatuses[0].State.Terminated == nil || st.ContainerStatuses[0].RestartCount != 3 {
			t.Errorf("status %+v", st)
		}
		pod.Status.Phase, pod.Status.Reason = v1.PodFailed, "NodeLost"
		d.config.update(manifest.Reconcile, pod)
		b.until(time.Minute, "it ends", func() bool { return b.running(pod.UID) == 0 })
		if st := d.status(pod.UID); st.Phase != v1.PodFailed || st.Reason != "NodeLost" {
			t.Errorf("status %+v", st)
		}
	})
}

// A deleted pod gets the grace period of the deletion and no more, is reported
// as terminated whatever its policy, and is forgotten when its source removes
// it.
func TestBoundPodIsDeleted(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("app", critest.Behaviour{IgnoreTerm: true})
		pod := boundPod("p", "u1")
		d := b.start(manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, pod)
		b.runs(pod.UID)
		grace := int64(7)
		at := time.Now()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: at}, &grace
		d.config.update(manifest.Delete, pod)
		b.until(time.Minute, "it has ended", func() bool { return d.Ended(pod.UID) })
		if st := d.status(pod.UID); !podinfo.IsTerminal(st.Phase) {
			t.Errorf("status %+v", st)
		}
		if took := time.Since(at); took < 7*time.Second || took > 9*time.Second {
			t.Errorf("it took %s", took)
		}
		d.config.deliver(manifest.SourceAPI)
		b.gone(pod.UID)
	})
}

// Conditions that other clients set in the API count for readiness.
func TestBoundPodsReadinessGates(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := boundPod("p", "u1")
		pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/gate"}}
		d := b.start(manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, pod)
		b.runs(pod.UID)
		is := func(want v1.ConditionStatus) func() bool {
			return func() bool {
				for _, c := range d.status(pod.UID).Conditions {
					if c.Type == v1.PodReady {
						return c.Status == want
					}
				}
				return false
			}
		}
		b.until(time.Second, "it is not ready", is(v1.ConditionFalse))
		for _, want := range []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse} {
			pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/gate", Status: want}}
			d.config.update(manifest.Reconcile, pod)
			b.until(time.Second, "the gate counts", is(want))
		}
		ran := d.ran.Load()
		// An echo of the daemon's own status causes no sync.
		pod.Status.Phase = v1.PodRunning
		d.config.update(manifest.Reconcile, pod)
		synctest.Wait()
		if n := d.ran.Load() - ran; n != 0 {
			t.Errorf("%d syncs", n)
		}
	})
}

// API pods keep running when the API server is unreachable at the daemon's
// start.
func TestBoundPodsWhileTheClusterIsAway(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := boundPod("p", "u1")
		d := b.start(manifest.SourceFile, manifest.SourceAPI)
		d.config.deliver(manifest.SourceFile)
		d.config.deliver(manifest.SourceAPI, pod)
		b.runs(pod.UID)
		b.kill()
		before := len(b.fake.Writes())
		d = b.start(manifest.SourceFile, manifest.SourceAPI)
		d.config.deliver(manifest.SourceFile, testPod("static", "s", "1"))
		b.runs("s")
		b.after(time.Hour)
		for _, call := range b.writes(before) {
			if !strings.Contains(call, "static") {
				t.Errorf("the runtime was called: %s", call)
			}
		}
		d.config.deliver(manifest.SourceAPI, pod)
		b.until(time.Minute, "it is taken up", func() bool { return d.status(pod.UID).Phase == v1.PodRunning })
		if st := d.status(pod.UID); st.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("status %+v", st)
		}
		d.config.deliver(manifest.SourceAPI)
		b.gone(pod.UID)
	})
}

// Ephemeral containers that are added to a running pod are started once each,
// whenever the daemon is killed in the meantime, and affect nothing else in the
// pod.
func TestEphemeralContainersAtRandomPoints(t *testing.T) {
	for seed := range seeds(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				rnd := rand.New(rand.NewPCG(seed, 2))
				b.fake.Latency("*", 7*time.Millisecond)
				pod := boundPod("p", "u1")
				b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, pod)
				b.runs(pod.UID)
				var names []string
				for round := range 12 {
					name := fmt.Sprint("debug", round)
					names = append(names, name)
					if round%2 == 0 {
						b.fake.Behave(name, critest.Behaviour{RunFor: 20 * time.Millisecond, ExitCode: 1})
					}
					pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{
						EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name, Image: "img:1",
							ImagePullPolicy: v1.PullIfNotPresent}, TargetContainerName: "app",
					})
					pod.Generation++
					b.daemon.config.update(manifest.Update, pod)
					b.after(time.Duration(rnd.IntN(150)) * time.Millisecond)
					b.kill()
					b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, pod)
				}
				b.after(time.Minute)
				for _, name := range append(names, "app") {
					if n := b.fake.Starts(string(pod.UID), name); n != 1 {
						t.Errorf("container %s was started %d times", name, n)
					}
				}
				st := b.daemon.status(pod.UID)
				if st.Phase != v1.PodRunning || len(st.EphemeralContainerStatuses) != len(names) ||
					st.ObservedGeneration != pod.Generation {
					t.Fatalf("status %+v", st)
				}
				for i, c := range st.EphemeralContainerStatuses {
					if ended := c.State.Terminated != nil; c.Name != names[i] || ended != (i%2 == 0) {
						t.Errorf("status %+v", c)
					}
				}
			})
		})
	}
}

// An API pod that the node disrupts has terminated for good: its controller
// creates another one.
func TestBoundPodIsEvicted(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.returns = map[string]RestartPolicy{
			"Evicted": func(*v1.Pod, status.Disruption) (bool, time.Duration) { return true, 0 }}
		pod := boundPod("p", "u1")
		d := b.start(manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, pod)
		b.runs(pod.UID)
		if err := d.Disrupt(pod.UID, eviction, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			b.until(time.Minute, "it has ended", func() bool { return b.daemon.Ended(pod.UID) })
			b.daemon.RetryDisrupted()
			b.after(time.Hour)
			if st := b.daemon.status(pod.UID); b.running(pod.UID) != 0 || st.Phase != v1.PodFailed || st.Reason != "Evicted" ||
				!isTarget(st) {
				t.Errorf("%d run; status %+v", b.running(pod.UID), st)
			}
			if err := b.daemon.Restart(pod.UID, "asked", time.Time{}); !errors.Is(err, podworkers.ErrAPIPod) {
				t.Errorf("rerun: %v", err)
			}
			b.kill()
			b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, pod)
		}
	})
}
