package supervisor

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
)

// All pods of a priority group get their stop signal at once when the host shuts down, also those
// whose stop waited for the stops of others when the shutdown began: each uses its whole grace
// period, and all end when it is over. Stops of a host that stays up wait for each other again.
func TestManyPodsStopAtOnceForAShutdown(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		const count, removed = 110, 40
		b.fake.Behave("*", critest.Behaviour{IgnoreTerm: true})
		d := b.start()
		pods := make([]*v1.Pod, count)
		uids := make([]types.UID, count)
		for i := range pods {
			pods[i] = testPod(fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("u%d", i)), "1")
			uids[i] = pods[i].UID
		}
		d.config.deliver(manifest.SourceFile, pods...)
		b.until(5*time.Minute, "all pods run", func() bool { return b.fake.Running() == count })
		b.after(time.Second)
		signaled := func(want int) func() bool { return func() bool { return b.fake.Calls("StopContainer") >= want } }

		d.config.deliver(manifest.SourceFile, pods[removed:]...)
		b.until(time.Second, "the first stops have begun", signaled(1))
		if begun := b.fake.Calls("StopContainer"); begun >= removed {
			t.Fatalf("%d of %d stops began at once on a host that stays up", begun, removed)
		}
		d.BeginShutdown()
		d.EndForShutdown(uids, 4*time.Second)
		begun := time.Now()
		if took := b.until(10*time.Second, "all pods are signaled", signaled(count)); took > 100*time.Millisecond {
			t.Errorf("the last pod got its stop signal after %s", took)
		}
		if err := d.WaitAllEnded(t.Context(), uids); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("the pods ended after %s, want the 4 s of their group", took)
		}

		d.CancelShutdown()
		left := pods[removed:]
		b.until(5*time.Minute, "the pods run again", func() bool { return b.fake.Running() == len(left) })
		b.after(time.Second)
		before := b.fake.Calls("StopContainer")
		d.config.deliver(manifest.SourceFile)
		b.until(time.Second, "the first stops have begun", signaled(before+1))
		if begun := b.fake.Calls("StopContainer") - before; begun >= len(left) {
			t.Errorf("%d of %d stops began at once after the shutdown was cancelled", begun, len(left))
		}
	})
}
