package supervisor

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/admit"
)

const url = manifest.SourceHTTP

// slowly makes a pod's container take this long to terminate.
func (b *supervisorHarness) slowly(pod *v1.Pod, ends time.Duration) {
	b.fake.Behave("of-"+pod.Name, critest.Behaviour{StopAfter: ends})
}

// A running pod keeps its resources until it has ended, even if its manifest was
// removed while no daemon ran and no source wants it.
func TestOrphanKeepsItsResources(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("2")
		old, small, large := requestingPod("old", "1"), requestingPod("small", "1"), requestingPod("large", "2")
		b.slowly(old, 20*time.Second)
		b.start().config.deliver(file, old)
		b.runs(old.UID)
		d := b.restart(small)
		b.runs(small.UID)
		if b.running(old.UID) != 1 {
			t.Fatal("the orphan has ended already")
		}
		b.until(time.Minute, "the orphan has ended", func() bool { return b.running(old.UID) == 0 })
		d.config.deliver(file, old)
		b.runs(old.UID)

		d = b.restart(large)
		b.waitsFor(large.UID, outOfCPU)
		if st := d.status(large.UID); !strings.Contains(st.Message, "used ") {
			t.Errorf("message %q", st.Message)
		}
		for b.running(old.UID)+b.running(small.UID) > 0 {
			if b.running(large.UID) > 0 {
				t.Fatal("it runs next to the pods whose resources it needs")
			}
			b.after(100 * time.Millisecond)
		}
		if took := b.runs(large.UID); took > time.Second {
			t.Errorf("it ran %s after the last of them", took)
		}
	})
}

// A running pod of a source that has not delivered keeps its resources, whether the
// source wants it in the end or it ends by itself, and nothing preempts it.
func TestPodOfUnreadySourceKeepsItsResources(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("2")
		silent, critical := requestingPod("silent", "1"), requestingPod("critical", "2")
		critical.Spec.PriorityClassName = "system-node-critical"
		d := b.start(file, url)
		d.config.deliver(file)
		d.config.deliver(url, silent)
		b.runs(silent.UID)
		b.kill()
		d = b.start(file, url)
		d.config.deliver(file, critical)
		b.waitsFor(critical.UID, outOfCPU)
		b.after(10 * time.Minute)
		if b.running(silent.UID) != 1 || b.running(critical.UID) != 0 {
			t.Errorf("%d of the untracked pod, %d critical", b.running(silent.UID), b.running(critical.UID))
		}
		d.config.deliver(url, silent)
		b.runs(critical.UID)
		if st := d.status(silent.UID); st.Reason != admit.ReasonPreempting {
			t.Errorf("the other is %s %s: it is wanted and can be preempted", st.Phase, st.Reason)
		}
		b.kill()
		b.fake.EndPod(string(critical.UID))

		d = b.start(file, url)
		d.config.deliver(url, silent)
		d.config.deliver(file)
		b.runs(silent.UID)
		b.kill()
		d = b.start(file, url)
		d.config.deliver(file, critical)
		b.until(time.Minute, "it waits", func() bool { return d.status(critical.UID).Reason == outOfCPU })
		b.fake.EndPod(string(silent.UID))
		if took := b.runs(critical.UID); took > 10*time.Second {
			t.Errorf("it ran %s after the other had ended", took)
		}
	})
}

// A preempted pod keeps its resources until it has ended.
func TestPreemptedPodKeepsItsResourcesUntilItHasEnded(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("2")
		victim, critical := requestingPod("victim", "1"), requestingPod("critical", "2")
		critical.Spec.PriorityClassName = "system-node-critical"
		b.slowly(victim, 20*time.Second)
		m := &recordedMetrics{worked: map[string]int{}}
		b.metrics = m
		d := b.start()
		d.config.deliver(file, victim)
		b.runs(victim.UID)
		d.config.deliver(file, victim, critical)
		b.until(time.Minute, "it is preempted",
			func() bool { return condition(d.status(victim.UID), v1.DisruptionTarget) != nil })
		ended := time.Now()
		for b.running(victim.UID) > 0 {
			if b.running(critical.UID) > 0 {
				t.Fatal("it runs next to the pod whose resources it needs")
			}
			b.after(100 * time.Millisecond)
		}
		if took := time.Since(ended); took < 15*time.Second {
			t.Errorf("it ended within %s: the test proves nothing", took)
		}
		b.until(time.Second, "it is Failed", func() bool { return d.status(victim.UID).Reason == admit.ReasonPreempting })
		b.runs(critical.UID)
		m.mu.Lock()
		defer m.mu.Unlock()
		if !slices.Equal(m.displaced, []string{"Preempting cpu"}) {
			t.Errorf("metrics of %q", m.displaced)
		}
	})
}
