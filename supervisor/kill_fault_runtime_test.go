package supervisor

import (
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/cri"
)

// A pod that cannot be stopped because the runtime is down shows that in its status and by one event,
// until it could be stopped.
func TestStopWhileTheRuntimeIsDownIsShown(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.fake.Down()
		b.after(time.Minute)
		d.config.deliver(file)
		b.until(time.Minute, "the status shows the failure",
			func() bool { return d.showsKillFault("u1", "is not answering") })
		b.after(10 * time.Minute)
		events := 0
		for _, e := range d.events.List() {
			if e.Reason == cri.ReasonFailedKillPod && e.Type == "Warning" && strings.Contains(e.Message, "is not answering") {
				events += int(max(e.Count, 1))
			}
		}
		if events != 1 || !d.showsKillFault("u1", "is not answering") {
			t.Errorf("%d events, status %+v", events, d.status("u1"))
		}
		b.fake.Up()
		b.gone("u1")
		b.until(time.Minute, "the pod is forgotten", func() bool { return len(d.Pods()) == 0 })
	})
}
