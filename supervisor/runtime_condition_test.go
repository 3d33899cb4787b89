package supervisor

import (
	"strings"
	"testing"
	"time"
)

// A runtime that does not respond makes the node not ready for its cluster after 30 s, and
// here at once. A runtime that reports that it is not ready counts at once.
func TestRuntimeConditionForTheCluster(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file)
		check := func(what, here, cluster string) {
			t.Helper()
			b.after(0)
			c := d.Runtime()
			tolerant := c.Tolerant(time.Now())
			for _, got := range []struct{ fault, want string }{{c.NotReady, here}, {tolerant.NotReady, cluster}} {
				if (got.fault == "") != (got.want == "") || !strings.Contains(got.fault, got.want) {
					t.Errorf("%s: %q here, %q in the cluster, want %q and %q", what, c.NotReady, tolerant.NotReady, here, cluster)
					return
				}
			}
		}
		b.after(time.Minute)
		check("it answers", "", "")
		b.fake.Down()
		b.after(25 * time.Second)
		check("it is down for 25 s", "connect", "")
		b.fake.Up()
		b.after(10 * time.Second)
		check("it is back", "", "")
		b.fake.Down()
		b.after(36 * time.Second)
		check("it is down for longer", "connect", "connect")
		if c := d.Runtime().Tolerant(time.Now()); time.Since(c.Since) > 10*time.Second {
			t.Errorf("not ready for the cluster since %s, now is %s", c.Since, time.Now())
		}
		b.fake.Up()
		b.after(10 * time.Second)
		b.fake.SetRuntimeReady("disk full")
		b.after(10 * time.Second)
		check("it reports that it is not ready", "disk full", "disk full")
		b.fake.Down()
		b.after(10 * time.Second)
		check("it is down, and was not ready", "connect", "disk full")
		b.fake.Up()
		b.after(10 * time.Second)
		b.fake.SetRuntimeReady("")
		b.fake.SetNetworkReady("no CNI")
		b.after(10 * time.Second)
		check("its network is not ready", "no CNI", "no CNI")
		b.fake.Down()
		b.after(10 * time.Second)
		check("it is down, and its network was not ready", "connect", "no CNI")
		b.fake.Up()
		b.fake.SetNetworkReady("")
		b.after(10 * time.Second)
		check("all is well", "", "")
	})
}

// The version of a runtime that was upgraded under the daemon is the new one, however short the
// upgrade was.
func TestRuntimeVersionAfterUpgrade(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetVersion("critest", "1.0.0", nil)
		d := b.start()
		d.config.deliver(file)
		b.after(time.Hour)
		if got := d.Runtime().Version.Version; got != "1.0.0" {
			t.Fatalf("version %q", got)
		}
		if n := b.fake.Calls("Version"); n > 70 {
			t.Errorf("asked for its version %d times in an hour", n)
		}
		b.fake.SetVersion("critest", "1.1.0", nil)
		b.until(2*time.Minute, "the new version is known", func() bool { return d.Runtime().Version.Version == "1.1.0" })
		b.fake.Down()
		b.after(10 * time.Second)
		b.fake.SetVersion("critest", "1.2.0", nil)
		b.fake.Up()
		b.until(10*time.Second, "the next version is known", func() bool { return d.Runtime().Version.Version == "1.2.0" })
	})
}
