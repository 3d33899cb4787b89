package supervisor

import (
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/supervisor/rollout"
	"github.com/podstead/podstead/supervisor/status"
)

// The deadline of a revision does not pass while the runtime is away, or while the node has
// evicted the pod.
func TestNodeDoesNotCauseARollback(t *testing.T) {
	for name, outage := range map[string]func(b *supervisorHarness, d *daemon, may *atomic.Bool){
		"runtime": func(b *supervisorHarness, _ *daemon, _ *atomic.Bool) {
			b.fake.Down()
			b.after(10 * time.Minute)
			b.fake.Up()
		},
		"eviction": func(b *supervisorHarness, d *daemon, may *atomic.Bool) {
			if err := d.Disrupt("u2", eviction, nil); err != nil {
				b.t.Fatal(err)
			}
			b.after(10 * time.Minute)
			may.Store(true)
			d.RetryDisrupted()
		},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				var may atomic.Bool
				b.returns = map[string]RestartPolicy{
					eviction.Reason: func(*v1.Pod, status.Disruption) (bool, time.Duration) { return may.Load(), 0 }}
				a := answering(b.fake)
				a.fail("ready-u2", true)
				d := b.replaceReady(judged)
				b.after(40 * time.Second)
				outage(b, d, &may)
				b.after(40 * time.Second)
				if st := d.rollout(t, "web"); st.State != rollout.Progressing || st.UID != "u2" || st.Deadline.IsZero() {
					t.Errorf("%+v", st)
				}
				// A revision that fails on a node that works is rolled back.
				b.awaitState(rollout.RolledBack, "u1")
				if list := d.warnings(rollout.ReasonDeadline); len(list) != 1 {
					t.Errorf("%q", list)
				}
			})
		})
	}
}
