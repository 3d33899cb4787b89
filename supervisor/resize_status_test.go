package supervisor

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// boundSized returns revision number generation of an API pod with these limits.
func boundSized(generation int64, cpu, memory string, policies ...v1.ContainerResizePolicy) *v1.Pod {
	pod := sized(cpu, memory, policies...)
	pod.Annotations = map[string]string{podinfo.AnnotationSource: string(manifest.SourceAPI)}
	pod.Generation, pod.Spec.NodeName = generation, "n"
	pod.Status.Phase = v1.PodPending
	return pod
}

// startBound runs the first revision of an API pod.
func (b *supervisorHarness) startBound(pod *v1.Pod) *daemon {
	b.t.Helper()
	b.cgroups = newFakeCgroups()
	d := b.start(manifest.SourceAPI)
	d.config.deliver(manifest.SourceAPI, pod)
	b.runs(pod.UID)
	b.until(time.Minute, "it is ready", func() bool { return d.isReady(pod.UID) })
	return d
}

// resizeEvents returns the reasons of the events of resizes since the daemon started, in order.
func (d *daemon) resizeEvents() string {
	var reasons []string
	for _, line := range d.logLines("reason=Resize") {
		_, rest, _ := strings.Cut(line, "reason=")
		reasons = append(reasons, strings.Fields(rest)[0])
	}
	return strings.Join(reasons, " ")
}

// The first status that reports that a revision was observed shows its resize, with the
// resources that the container has and those that are allocated, until it is made.
func TestResizeIsInProgressUntilItIsMade(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := boundSized(1, "1", "64Mi")
		d := b.startBound(pod)
		updating := b.fake.Inject("UpdateContainerResources", critest.Fault{Hang: true})
		d.config.update(manifest.Update, boundSized(2, "2", "128Mi"))
		<-updating.Reached()
		synctest.Wait()
		st := d.status("u1")
		c, app := condition(st, v1.PodResizeInProgress), st.ContainerStatuses[0]
		if c == nil || c.Reason != "" || c.ObservedGeneration != 2 || st.ObservedGeneration != 2 {
			t.Errorf("generation %d, condition %+v", st.ObservedGeneration, c)
		}
		if app.Resources.Limits.Memory().Value() != 64<<20 || app.AllocatedResources.Memory().Value() != 128<<20 {
			t.Errorf("resources %+v, allocated %v", app.Resources, app.AllocatedResources)
		}
		if got := d.resizeEvents(); got != "ResizeStarted" {
			t.Errorf("events %s", got)
		}
		updating.Release()
		b.until(time.Second, "the resize is complete", func() bool {
			st := d.status("u1")
			return condition(st, v1.PodResizeInProgress) == nil &&
				st.ContainerStatuses[0].Resources.Limits.Memory().Value() == 128<<20
		})
		b.after(5 * time.Minute)
		if got := d.resizeEvents(); got != "ResizeStarted ResizeCompleted" {
			t.Errorf("events %s", got)
		}
	})
}

// A resize that restarts the container is complete when the new one runs, also under a
// daemon that is started meanwhile.
func TestResizeThatRestartsIsInProgressUntilTheRestart(t *testing.T) {
	policy := v1.ContainerResizePolicy{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("app", critest.Behaviour{StopAfter: 10 * time.Second})
		d := b.startBound(boundSized(1, "1", "64Mi", policy))
		second := boundSized(2, "1", "128Mi", policy)
		d.config.update(manifest.Update, second)
		inProgress := func() bool {
			c := condition(b.daemon.status("u1"), v1.PodResizeInProgress)
			return c != nil && c.ObservedGeneration == 2
		}
		b.until(time.Second, "it is in progress", inProgress)
		b.after(5 * time.Second)
		if got := d.resizeEvents(); got != "ResizeStarted" || !inProgress() {
			t.Errorf("while the container stops: events %s, in progress %v", got, inProgress())
		}
		b.kill()
		d = b.start(manifest.SourceAPI)
		starting := b.fake.Inject("StartContainer", critest.Fault{Hang: true})
		d.config.deliver(manifest.SourceAPI, second)
		<-starting.Reached()
		synctest.Wait()
		if got := d.resizeEvents(); got != "" || !inProgress() {
			t.Errorf("before the new container runs: events %s, in progress %v", got, inProgress())
		}
		starting.Release()
		b.until(time.Minute, "it is complete", func() bool {
			return !inProgress() && d.isReady("u1") &&
				d.status("u1").ContainerStatuses[0].Resources.Limits.Memory().Value() == 128<<20
		})
		b.after(5 * time.Minute)
		if got := d.resizeEvents(); got != "ResizeCompleted" {
			t.Errorf("events %s", got)
		}
		if n := b.fake.Starts("u1", "app"); n != 2 {
			t.Errorf("%d starts", n)
		}
	})
}

// Restarts for resizes are no crashes: they do not back off.
func TestResizesThatRestartDoNotBackOff(t *testing.T) {
	policy := v1.ContainerResizePolicy{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.startBound(boundSized(1, "1", "64Mi", policy))
		for i, memory := range []string{"128Mi", "64Mi", "128Mi"} {
			d.config.update(manifest.Update, boundSized(int64(i+2), "1", memory, policy))
			b.until(5*time.Second, "it has restarted", func() bool {
				return b.fake.Starts("u1", "app") == i+2 && d.isReady("u1") &&
					condition(d.status("u1"), v1.PodResizeInProgress) == nil
			})
		}
	})
}

// A resize that is denied is shown with its generation and reported once; a reverted one
// is forgotten.
func TestResizeIsPending(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := boundSized(1, "1", "64Mi")
		d := b.startBound(pod)
		pending := func(reason string, generation int64) func() bool {
			return func() bool {
				st := d.status("u1")
				c := condition(st, v1.PodResizePending)
				return c != nil && c.Reason == reason && c.ObservedGeneration == generation &&
					st.ObservedGeneration == generation &&
					st.ContainerStatuses[0].AllocatedResources.Cpu().Value() == 1 &&
					st.ContainerStatuses[0].Resources.Limits.Cpu().Value() == 1
			}
		}
		d.config.update(manifest.Update, boundSized(2, "1000", "64Mi"))
		b.until(time.Second, "it is infeasible", pending(v1.PodReasonInfeasible, 2))
		d.config.update(manifest.Update, boundSized(3, "2000", "64Mi"))
		b.until(time.Second, "the next is infeasible", pending(v1.PodReasonInfeasible, 3))
		b.after(5 * time.Minute)
		d.config.update(manifest.Update, boundSized(4, "1", "64Mi"))
		b.until(time.Second, "nothing is pending", func() bool {
			st := d.status("u1")
			return st.ObservedGeneration == 4 && condition(st, v1.PodResizePending) == nil &&
				condition(st, v1.PodResizeInProgress) == nil
		})
		var count int32
		for _, e := range d.events.List() {
			if e.InvolvedObject.UID == pod.UID && strings.HasPrefix(e.Reason, "Resize") {
				count += e.Count
			}
		}
		if got := d.resizeEvents(); got != "ResizeInfeasible" || count != 2 {
			t.Errorf("%d events, %s", count, got)
		}
	})
}

// A deferred resize is reported once, and made when there is room.
func TestDeferredResizeIsReportedOnce(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d, other := deferred(b)
		late := requestingPod("late", "500m")
		d.config.deliver(file, sized("3", "64Mi"), other, late) // the message changes
		b.runs(late.UID)
		b.after(5 * time.Minute)
		d.config.deliver(file, sized("3", "64Mi"))
		b.until(time.Minute, "it is resized", func() bool { return b.linux().CpuQuota == 300_000 })
		b.until(time.Second, "nothing is pending", func() bool {
			st := d.status("u1")
			return condition(st, v1.PodResizePending) == nil && condition(st, v1.PodResizeInProgress) == nil
		})
		if got := d.resizeEvents(); got != "ResizeDeferred ResizeStarted ResizeCompleted" {
			t.Errorf("events %s", got)
		}
	})
}

// The resources of a pod as a whole are resized as those of its containers are: when
// there is room, and shown until then.
func TestResizeOfThePodAsAWhole(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		cgroups := newFakeCgroups()
		b.allocatable, b.cgroups = cpus("3"), cgroups
		whole := func(cpu string) *v1.Pod {
			pod := sized("1", "64Mi")
			list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Gi")}
			pod.Spec.Resources = &v1.ResourceRequirements{Requests: list, Limits: list}
			pod.Annotations[podinfo.AnnotationHash] = cpu
			return pod
		}
		cgroup := func() int64 {
			cgroups.mu.Lock()
			defer cgroups.mu.Unlock()
			return cgroups.applied["u1"].CPULimit
		}
		other := requestingPod("other", "1")
		d := b.start()
		d.config.deliver(file, whole("1"), other)
		b.runs("u1")
		b.runs(other.UID)
		d.config.deliver(file, whole("3"), other)
		b.isDeferred()
		// A new daemon knows what is allocated.
		d = b.restart(whole("3"), other)
		b.isDeferred()
		b.after(5 * time.Minute)
		if got := cgroup(); got != 1000 {
			t.Errorf("the cgroup has %d millicores", got)
		}
		d.config.deliver(file, whole("3"))
		b.until(time.Minute, "the cgroup has the new limit", func() bool { return cgroup() == 3000 })
		b.until(time.Second, "nothing is pending", func() bool {
			st := d.status("u1")
			return condition(st, v1.PodResizePending) == nil && condition(st, v1.PodResizeInProgress) == nil
		})
		b.after(5 * time.Minute)
		if got := d.resizeEvents(); got != "ResizeDeferred ResizeStarted ResizeCompleted" {
			t.Errorf("events %s", got)
		}
		// The kernel refuses: it is shown, and tried again.
		cgroups.mu.Lock()
		cgroups.fault = errors.New("memory in use")
		cgroups.mu.Unlock()
		d.config.deliver(file, whole("2"))
		b.until(time.Minute, "the reason is shown", func() bool {
			c := condition(d.status("u1"), v1.PodResizeInProgress)
			return c != nil && c.Reason == v1.PodReasonError && strings.Contains(c.Message, "memory in use")
		})
		cgroups.mu.Lock()
		cgroups.fault = nil
		cgroups.mu.Unlock()
		b.until(5*time.Minute, "it is made", func() bool {
			return cgroup() == 2000 && condition(d.status("u1"), v1.PodResizeInProgress) == nil
		})
		if n := b.fake.Starts("u1", "app"); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}

// A container that restarts for a resize starts again whatever its exit code, also if the
// daemon is killed, or the successor cannot be created, after it has exited.
func TestRestartForAResizeAfterACleanExit(t *testing.T) {
	policy := v1.ContainerResizePolicy{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}
	revision := func(generation int64, memory string) *v1.Pod {
		pod := boundSized(generation, "1", memory, policy)
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		return pod
	}
	for name, disturb := range map[string]func(b *supervisorHarness, second *v1.Pod){
		"the daemon is killed": func(b *supervisorHarness, second *v1.Pod) {
			b.sigkill()
			b.after(20 * time.Second)
			b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, second)
		},
		"the runtime fails to create it": func(b *supervisorHarness, _ *v1.Pod) {
			b.fake.Inject("CreateContainer", critest.Fault{Before: errors.New("no space left")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				b.fake.Behave("app", critest.Behaviour{StopAfter: 10 * time.Second})
				d := b.startBound(revision(1, "64Mi"))
				second := revision(2, "128Mi")
				d.config.update(manifest.Update, second)
				b.until(time.Second, "it is in progress",
					func() bool { return condition(d.status("u1"), v1.PodResizeInProgress) != nil })
				b.after(5 * time.Second)
				disturb(b, second)
				b.until(5*time.Minute, "the resize is complete", func() bool {
					st := b.daemon.status("u1")
					return b.daemon.isReady("u1") && condition(st, v1.PodResizeInProgress) == nil &&
						st.ContainerStatuses[0].Resources.Limits.Memory().Value() == 128<<20
				})
				if n := b.fake.Starts("u1", "app"); n != 2 {
					t.Errorf("%d starts", n)
				}
			})
		})
	}
}
