package supervisor

import (
	"fmt"
	"testing"
	"time"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/internal/wallclock"
)

// The crash-loop back-off begins again with each boot of the host: a pod whose containers end
// with the host, several times in a row, is not down for longer each time.
func TestBootsDoNotDelayPods(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		boot := 0
		b.mark = func() (wallclock.Mark, bool) { return wallclock.Mark{Boot: fmt.Sprint("boot", boot)}, true }
		b.fake.Behave("bad/app", critest.Behaviour{RunFor: time.Second, ExitCode: 1})
		good, bad := testPod("good", "u1", "r1"), testPod("bad", "u2", "r1")
		b.start().config.deliver(file, good, bad)
		b.runs("u1")
		for boot < 5 {
			b.after(3 * time.Minute)
			starts := b.fake.Starts("u2", "app")
			b.sigkill()
			b.fake.Reboot()
			boot++
			b.start().config.deliver(file, good, bad)
			took := b.runs("u1")
			if took > 2*time.Second {
				t.Errorf("the pod runs %s after boot %d", took, boot)
			}
			b.until(2*time.Second, "the crashing pod is started too", func() bool { return b.fake.Starts("u2", "app") > starts })
		}
	})
}
