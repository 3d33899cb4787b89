package supervisor

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/admit"
)

// A static pod that the node denies is held and costs almost nothing; a running
// pod that the node would deny keeps running.
func TestDeniedStaticPodIsHeld(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("p", "u", "1")
		pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.after(time.Hour)
		st := d.status(pod.UID)
		if st.Phase != v1.PodPending || st.Reason != admit.ReasonAffinity || len(b.fake.Writes()) > 0 {
			t.Errorf("%s %s: %s", st.Phase, st.Reason, st.Message)
		}
		if n := d.ran.Load(); n > 70 {
			t.Errorf("%d syncs in an hour of waiting", n)
		}
		if len(d.eventsOf(pod, admit.ReasonAffinity)) != 1 {
			t.Errorf("events %q", d.eventsOf(pod, admit.ReasonAffinity))
		}
		for _, e := range d.events.List() {
			if e.InvolvedObject.UID == pod.UID && e.Reason == admit.ReasonAffinity && e.Count != 1 {
				t.Errorf("it was reported %d times in an hour", e.Count)
			}
		}
		b.node.Labels = map[string]string{"disk": "ssd"}
		b.restart(pod)
		b.runs(pod.UID)
		b.node.Labels = nil
		writes := len(b.fake.Writes())
		b.restart(pod)
		b.after(time.Hour)
		b.noWrites(writes)
		b.runs(pod.UID)
	})
}

// Of two pods that request one host port the first gets it, also across a restart of
// the daemon, and the other starts as soon as the first has ended.
func TestPodWaitsForAHostPort(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		with := func(name string, uid types.UID) *v1.Pod {
			pod := testPod(name, uid, "1")
			pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, Protocol: v1.ProtocolTCP}}
			return pod
		}
		first, second := with("first", "u1"), with("second", "u2")
		waits := func(d *daemon) func() bool {
			return func() bool { return d.status("u2").Reason == admit.ReasonPorts }
		}
		d := b.start()
		d.config.deliver(manifest.SourceFile, first)
		b.runs("u1")
		d.config.deliver(manifest.SourceFile, first, second)
		b.until(time.Minute, "the second waits", waits(d))
		for range 5 {
			// Whichever of the two is synced first.
			d = b.restart(second, first)
			b.until(time.Minute, "the second waits", waits(d))
		}
		if b.running("u1") != 1 || b.running("u2") != 0 {
			t.Errorf("%d of the first run, %d of the second", b.running("u1"), b.running("u2"))
		}
		d.config.deliver(manifest.SourceFile, second)
		b.until(time.Minute, "the first has ended", func() bool { return b.running("u1") == 0 })
		if took := b.runs("u2"); took > time.Second {
			t.Errorf("the second ran %s later", took)
		}
	})
}
