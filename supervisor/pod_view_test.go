package supervisor

import (
	"testing"
	"time"
)

// A client that waits for a start does not wait forever for a pod that cannot
// start.
// Unchanged pods keep their pointer, so that a client that compares snapshots
// inspects changed pods only.
func TestUnchangedPodsAreShownByTheSamePointer(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		other := testPod("other", "u2", "r1")
		d.config.deliver(file, testPod("web", "u1", "r1"), other)
		b.until(time.Minute, "both are ready", func() bool {
			pods := d.Pods()
			return len(pods) == 2 && ready(pods[0]) && ready(pods[1])
		})
		first := d.Pods()
		b.after(time.Minute)
		if again := d.Pods(); again[0] != first[0] || again[1] != first[1] {
			t.Error("unchanged pods have other pointers")
		}
		d.config.deliver(file, other)
		b.until(time.Minute, "web ends", func() bool { return d.Pods()[1].DeletionTimestamp != nil })
		second := d.Pods()
		if second[0] != first[0] || second[1] == first[1] || first[1].DeletionTimestamp != nil {
			t.Errorf("after one of two changed: the other is the same %v, it is %v", second[0] == first[0],
				second[1] == first[1])
		}
		b.gone("u1")
		if pods := d.Pods(); len(pods) != 1 || pods[0] != first[0] {
			t.Errorf("%d pods", len(pods))
		}
	})
}
