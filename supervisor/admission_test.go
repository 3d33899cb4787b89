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

// asking is a pod that requests so much cpu; its UID is its name.
func asking(name, amount string) *v1.Pod {
	pod := testPod(name, types.UID(name), "1")
	pod.Spec.Containers[0].Name = "of-" + name
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
	return pod
}

// revised is the pod after an edit: another UID under the same name.
func revised(name, amount, uid string) *v1.Pod {
	pod := asking(name, amount)
	pod.UID = types.UID(uid)
	pod.Annotations[podinfo.AnnotationHash], pod.Annotations[podinfo.AnnotationTemplate] = uid, uid
	return pod
}

func (b *bed) waitsFor(uid types.UID, reason string) {
	b.t.Helper()
	b.until(time.Minute, fmt.Sprintf("%s waits with %s", uid, reason), func() bool {
		st := b.daemon.status(uid)
		return st.Phase == v1.PodPending && st.Reason == reason
	})
}

// A pod for which there is no room waits, costs nothing, and runs at once when
// another one has ended. Restarts of the daemon do not touch what runs, even if
// there is less room than before.
func TestPodWaitsForRoom(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.allocatable = cpus("2")
		first, second, third := asking("c-first", "1"), asking("b-second", "500m"), asking("a-third", "1")
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
		// Two that run look once a minute or less.
		if n := d.ran.Load() - ran; n > 125 {
			t.Errorf("%d scripts ran in an hour of waiting", n)
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

// Who goes first does not depend on who is looked at first: the higher
// priority, then who waited for longer, over restarts of the daemon too.
func TestOrderOfThoseWhoWaitForRoom(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.allocatable = cpus("1")
		holder, old, young, high := asking("holder", "1"), asking("z-old", "1"), asking("a-young", "1"), asking("high", "1")
		priority := int32(7)
		high.Spec.Priority = &priority
		// At a start, with nothing known, by priority and by name.
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

// Who is edited keeps its place, though others wait for it.
func TestEditedPodKeepsItsPlace(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.allocatable = cpus("1")
		web, waits := asking("web", "1"), asking("a", "1")
		d := b.start()
		d.config.deliver(file, web)
		b.runs(web.UID)
		d.config.deliver(file, web, waits)
		b.waitsFor(waits.UID, outOfCPU)
		for _, uid := range []string{"web-2", "web-3"} {
			web = revised("web", "1", uid)
			d.config.deliver(file, web, waits)
			b.runs(web.UID)
		}
		if err := d.Restart(web.UID, "by command", time.Time{}); err != nil {
			t.Fatal(err)
		}
		b.after(time.Minute)
		b.runs(web.UID)
		if n := b.running(waits.UID); n != 0 {
			t.Error("the one that waited took its place")
		}
	})
}

// A pod whose sandbox dies has its place still, and one that waits for a
// missing label keeps none.
func TestPlaceIsKeptByWhoRuns(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.allocatable = cpus("1")
		lost, web, waits := asking("a-lost", "1"), asking("web", "1"), asking("b", "1")
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

// A critical pod ends the least that gives it room. What it ended shows so and
// runs again when there is room, over restarts of the daemon too.
func TestCriticalPodPreempts(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.allocatable = cpus("3")
		a, c, critical := asking("a", "1"), asking("c", "2"), asking("critical", "2")
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
			if st.Phase != v1.PodFailed || st.Reason != admit.ReasonPreempting || !strings.Contains(st.Message, "critical pod default/critical") || !target {
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
			t.Errorf("%d scripts ran in an hour of waiting", n)
		}
		for range 3 {
			d = b.restart(c, critical, a)
			b.after(time.Minute)
			preempted(d)
		}
		d.config.deliver(file, a, c)
		b.until(time.Minute, "the critical one has ended", func() bool { return b.running(critical.UID) == 0 })
		if took := b.runs(c.UID); took > time.Second {
			t.Errorf("the preempted one ran %s later", took)
		}
	})
}

// A critical pod for which nothing can be ended ends nothing, and a restart
// of the daemon is no reason to preempt.
func TestNothingIsPreemptedInVain(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.allocatable = cpus("3")
		a, sure, critical := asking("a", "1"), asking("sure", "2"), asking("critical", "2")
		for _, pod := range []*v1.Pod{sure, critical} {
			pod.Spec.PriorityClassName = "system-cluster-critical"
		}
		d := b.start()
		d.config.deliver(file, a, sure)
		b.runs(a.UID)
		b.runs(sure.UID)
		writes := len(b.fake.Writes())
		d.config.deliver(file, a, sure, critical)
		b.waitsFor(critical.UID, outOfCPU)
		b.allocatable = cpus("1")
		b.restart(critical, sure, a)
		b.after(time.Hour)
		b.noWrites(writes)
		b.allocatable = cpus("3")
		b.restart(a, sure)
		b.after(time.Minute)
		b.noWrites(writes)
	})
}

// A resize for which there is no room now waits for it; one for which there
// never is says so.
func TestResizeWaitsForRoom(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.allocatable = cpus("3")
		pod := func(amount string) *v1.Pod {
			pod := sized(amount, "64Mi")
			pod.Spec.Containers[0].Resources.Requests = pod.Spec.Containers[0].Resources.Limits.DeepCopy()
			return pod
		}
		other := asking("other", "1")
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
		// What it does not have yet is free for others, but who came first goes first.
		late := asking("late", "1")
		late.Spec.RestartPolicy = v1.RestartPolicyNever
		d.config.deliver(file, pod("3"), other, late)
		b.runs(late.UID)
		d.config.deliver(file, pod("3"), late)
		b.until(time.Minute, "the other has ended", func() bool { return b.running(other.UID) == 0 })
		b.after(time.Minute)
		pending(v1.PodReasonDeferred)
		d.config.deliver(file, pod("3"))
		b.until(time.Minute, "it is resized", func() bool { return b.linux().CpuQuota == 300_000 })
		b.until(time.Minute, "the status is quiet", func() bool { return condition(d.status("u1"), v1.PodResizePending) == nil })
		d.config.deliver(file, pod("1"))
		b.until(time.Minute, "it is small again", func() bool { return b.linux().CpuQuota == 100_000 })
		d.config.deliver(file, pod("1"), asking("two", "2"))
		b.runs("two")
	})
}
