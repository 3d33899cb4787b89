package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/admit"
)

const outOfCPU = "OutOfcpu"

func cpus(amount string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount), v1.ResourcePods: resource.MustParse("10")}
}

// requestingPod returns a pod that requests this much CPU; its UID is its name.
func requestingPod(name, amount string) *v1.Pod {
	pod := testPod(name, types.UID(name), "1")
	pod.Spec.Containers[0].Name = "of-" + name
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
	return pod
}

// revised returns the pod after an edit: another UID under the same name.
func revisedPod(name, amount, uid string) *v1.Pod {
	pod := requestingPod(name, amount)
	pod.UID = types.UID(uid)
	pod.Annotations[podinfo.AnnotationHash], pod.Annotations[podinfo.AnnotationTemplate] = uid, uid
	return pod
}

func (b *supervisorHarness) waitsFor(uid types.UID, reason string) {
	b.t.Helper()
	b.until(time.Minute, fmt.Sprintf("%s waits with %s", uid, reason), func() bool {
		st := b.daemon.status(uid)
		return st.Phase == v1.PodPending && st.Reason == reason
	})
}

// A pod without enough resources waits, costs nothing, and runs at once when
// another pod has terminated. Restarts of the daemon do not affect running
// pods, even if the node has less than before.
func TestPodWaitsForResources(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("2")
		first, second, third := requestingPod("c-first", "1"), requestingPod("b-second", "500m"),
			requestingPod("a-third", "1")
		d := b.start()
		d.config.deliver(file, first, second)
		b.runs(first.UID)
		b.runs(second.UID)
		d.config.deliver(file, first, second, third)
		b.waitsFor(third.UID, outOfCPU)
		if st := d.status(third.UID); !strings.Contains(st.Message, "requested 1, used 1500m, capacity 2;") {
			t.Errorf("message %q", st.Message)
		}
		ran := d.ran.Load()
		b.after(time.Hour)
		// Two running pods resync once a minute or less.
		if n := d.ran.Load() - ran; n > 125 {
			t.Errorf("%d syncs in an hour of waiting", n)
		}
		if n := len(d.eventsOf(third, outOfCPU)); n != 1 {
			t.Errorf("%d events", n)
		}
		writes := len(b.fake.Writes())
		for _, has := range []string{"2", "500m", "2"} {
			b.allocatable = cpus(has)
			d = b.restart(third, second, first)
			b.waitsFor(third.UID, outOfCPU)
			b.after(time.Minute)
		}
		b.noWrites(writes)
		d.config.deliver(file, first, third)
		b.until(time.Minute, "the second has ended", func() bool { return b.running(second.UID) == 0 })
		if took := b.runs(third.UID); took > time.Second {
			t.Errorf("the third ran %s later", took)
		}
	})
}

// The order of waiting pods does not depend on which is synced first: the
// higher priority comes first, then the pod that waited longer, also across
// restarts of the daemon.
func TestOrderOfWaitingPods(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("1")
		holder, old, young, high := requestingPod("holder", "1"), requestingPod("z-old", "1"), requestingPod("a-young", "1"),
			requestingPod("high", "1")
		priority := int32(7)
		high.Spec.Priority = &priority
		// At a start without earlier state: by priority and by name.
		d := b.start()
		d.config.deliver(file, old, holder, high)
		b.runs(high.UID)
		b.waitsFor(old.UID, outOfCPU)
		d.config.deliver(file, old, holder)
		b.runs(holder.UID)
		b.after(time.Minute)
		d.config.deliver(file, old, holder, young)
		b.waitsFor(young.UID, outOfCPU)
		d = b.restart(young, old, holder)
		b.waitsFor(young.UID, outOfCPU)
		d.config.deliver(file, young, old)
		b.runs(old.UID)
		b.after(time.Minute)
		if n := b.running(young.UID); n != 0 {
			t.Error("both run")
		}
		d.config.deliver(file, young)
		b.runs(young.UID)
	})
}

// An edited pod keeps its reservation, although others wait for it.
func TestEditedPodKeepsItsReservation(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("1")
		web, waits := requestingPod("web", "1"), requestingPod("a", "1")
		d := b.start()
		d.config.deliver(file, web)
		b.runs(web.UID)
		d.config.deliver(file, web, waits)
		b.waitsFor(waits.UID, outOfCPU)
		for _, uid := range []string{"web-2", "web-3"} {
			web = revisedPod("web", "1", uid)
			d.config.deliver(file, web, waits)
			b.runs(web.UID)
		}
		if err := d.Restart(web.UID, "by command", time.Time{}); err != nil {
			t.Fatal(err)
		}
		b.after(time.Minute)
		b.runs(web.UID)
		if n := b.running(waits.UID); n != 0 {
			t.Error("the waiting pod took its reservation")
		}
	})
}

// A pod whose sandbox dies keeps its reservation, and a pod that waits for a missing
// label has none.
func TestRunningPodKeepsItsReservation(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("1")
		lost, web, waits := requestingPod("a-lost", "1"), requestingPod("web", "1"), requestingPod("b", "1")
		lost.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		d := b.start()
		d.config.deliver(file, lost, web)
		b.runs(web.UID)
		b.waitsFor(lost.UID, admit.ReasonAffinity)
		d.config.deliver(file, lost, web, waits)
		b.waitsFor(waits.UID, outOfCPU)
		if n := b.fake.KillSandboxes(web.Name); n != 1 {
			t.Errorf("%d sandboxes were killed", n)
		}
		b.after(2 * time.Minute)
		b.runs(web.UID)
		b.waitsFor(waits.UID, outOfCPU)
	})
}

// A critical pod preempts as few pods as possible. A preempted pod shows that, and
// runs again when there is room, also across restarts of the daemon.
func TestCriticalPodPreempts(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("3")
		a, c, critical := requestingPod("a", "1"), requestingPod("c", "2"), requestingPod("critical", "2")
		critical.Spec.PriorityClassName = "system-node-critical"
		d := b.start()
		d.config.deliver(file, a, c)
		b.runs(a.UID)
		b.runs(c.UID)
		d.config.deliver(file, a, c, critical)
		b.runs(critical.UID)
		if b.running(a.UID) != 1 || b.running(c.UID) != 0 {
			t.Errorf("%d of a, %d of c", b.running(a.UID), b.running(c.UID))
		}
		preempted := func(d *daemon) {
			t.Helper()
			synctest.Wait()
			st := d.status(c.UID)
			target := slices.ContainsFunc(st.Conditions, func(c v1.PodCondition) bool {
				return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue
			})
			if st.Phase != v1.PodFailed || st.Reason != admit.ReasonPreempting ||
				!strings.Contains(st.Message, "critical pod default/critical") || !target {
				t.Errorf("status %s %s %q", st.Phase, st.Reason, st.Message)
			}
			if b.running(c.UID) != 0 || b.running(critical.UID) != 1 || b.running(a.UID) != 1 {
				t.Errorf("%d of c, %d of critical, %d of a", b.running(c.UID), b.running(critical.UID), b.running(a.UID))
			}
		}
		b.after(time.Minute)
		preempted(d)
		if n := len(d.eventsOf(c, admit.ReasonPreempting)); n != 1 {
			t.Errorf("%d events", n)
		}
		ran := d.ran.Load()
		b.after(time.Hour)
		preempted(d)
		if n := d.ran.Load() - ran; n > 125 {
			t.Errorf("%d syncs in an hour of waiting", n)
		}
		for range 3 {
			d = b.restart(c, critical, a)
			b.after(time.Minute)
			preempted(d)
		}
		d.config.deliver(file, a, c)
		b.until(time.Minute, "the critical pod has ended", func() bool { return b.running(critical.UID) == 0 })
		if took := b.runs(c.UID); took > time.Second {
			t.Errorf("the preempted pod ran %s later", took)
		}
	})
}

// A critical pod preempts nothing if that would not make room for it, and a restart
// of the daemon is no reason to preempt.
func TestNoPreemptionWithoutEffect(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("3")
		a, other, critical := requestingPod("a", "1"), requestingPod("other", "2"), requestingPod("critical", "2")
		for _, pod := range []*v1.Pod{other, critical} {
			pod.Spec.PriorityClassName = "system-cluster-critical"
		}
		d := b.start()
		d.config.deliver(file, a, other)
		b.runs(a.UID)
		b.runs(other.UID)
		writes := len(b.fake.Writes())
		d.config.deliver(file, a, other, critical)
		b.waitsFor(critical.UID, outOfCPU)
		b.allocatable = cpus("1")
		b.restart(critical, other, a)
		b.after(time.Hour)
		b.noWrites(writes)
		b.allocatable = cpus("3")
		b.restart(a, other)
		b.after(time.Minute)
		b.noWrites(writes)
	})
}

// A resize without enough resources is deferred; one that can never be satisfied is
// infeasible.
func TestResizeWaitsForResources(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("3")
		pod := func(amount string) *v1.Pod {
			pod := sized(amount, "64Mi")
			pod.Spec.Containers[0].Resources.Requests = pod.Spec.Containers[0].Resources.Limits.DeepCopy()
			return pod
		}
		other := requestingPod("other", "1")
		d := b.start()
		d.config.deliver(file, pod("1"), other)
		b.runs("u1")
		b.runs(other.UID)
		pending := func(reason string) {
			t.Helper()
			b.until(time.Minute, "the resize is "+reason, func() bool {
				c := condition(d.status("u1"), v1.PodResizePending)
				return c != nil && c.Reason == reason
			})
		}
		d.config.deliver(file, pod("4"), other)
		pending(v1.PodReasonInfeasible)
		d.config.deliver(file, pod("3"), other)
		pending(v1.PodReasonDeferred)
		d = b.restart(pod("3"), other)
		pending(v1.PodReasonDeferred)
		if n := b.fake.Calls("UpdateContainerResources"); n != 0 || b.linux().CpuQuota != 100_000 {
			t.Errorf("%d updates", n)
		}
		// Resources that it does not have yet are free for others, but
		// the older request comes first.
		late := requestingPod("late", "1")
		late.Spec.RestartPolicy = v1.RestartPolicyNever
		d.config.deliver(file, pod("3"), other, late)
		b.runs(late.UID)
		d.config.deliver(file, pod("3"), late)
		b.until(time.Minute, "the other has ended", func() bool { return b.running(other.UID) == 0 })
		b.after(time.Minute)
		pending(v1.PodReasonDeferred)
		d.config.deliver(file, pod("3"))
		b.until(time.Minute, "it is resized", func() bool { return b.linux().CpuQuota == 300_000 })
		b.until(time.Minute, "the condition is removed",
			func() bool { return condition(d.status("u1"), v1.PodResizePending) == nil })
		d.config.deliver(file, pod("1"))
		b.until(time.Minute, "it is small again", func() bool { return b.linux().CpuQuota == 100_000 })
		d.config.deliver(file, pod("1"), requestingPod("two", "2"))
		b.runs("two")
	})
}
