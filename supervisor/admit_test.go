package supervisor

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/admit"
)

// A pod that the node refuses waits and costs next to nothing; one that runs
// when the node would refuse it goes on.
func TestRefusedPodWaits(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
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
			t.Errorf("%d scripts ran in an hour of waiting", n)
		}
		if len(d.eventsOf(pod, admit.ReasonAffinity)) != 1 {
			t.Errorf("events %q", d.eventsOf(pod, admit.ReasonAffinity))
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
