package machine

import (
	"strings"
	"testing"
	"time"
)

// The machine itself: it boots, runs commands, keeps what was flushed over a power cut, reboots
// and switches itself off.
func TestMachine(t *testing.T) {
	m := New(t)
	began := time.Now()
	m.Start()
	t.Logf("agent after %v", time.Since(began).Round(time.Second))
	m.Write("/root/flushed", "yes")
	m.Await("the system is running", bootTimeout,
		func() error { _, err := m.Try("systemctl is-system-running --wait"); return err })
	t.Logf("running after %v", time.Since(began).Round(time.Second))
	t.Log(m.Sh("systemd-analyze; systemd-analyze blame | head -20; ip addr; lsmod | wc -l; cat " +
		"/sys/fs/cgroup/cgroup.controllers; ls /proc/pressure"))
	m.PowerCut()
	m.Start()
	if got := m.Sh("cat /root/flushed"); got != "yes" {
		t.Fatal(got)
	}
	m.Reboot()
	m.Poweroff()
	if !strings.Contains(m.Journal(), "Reached target") {
		t.Error("no journal on the host")
	}
}
