package machine

import (
	"fmt"
	"strings"
	"testing"
)

// A private containerd, which podstead starts where no runtime runs, comes back with its pods after
// a reboot and a power cut, and outlives the daemon.
func TestPrivateContainerd(t *testing.T) {
	m := newInstalled(t)
	m.Start()
	m.Sh("systemctl mask --now containerd && systemctl stop podstead && rm -f /var/lib/podstead/runtime-endpoint && " +
		"systemctl start podstead")
	m.Await("the private containerd answers", settle, func() error {
		out, err := m.Try("podstead get nodes && test -S /run/podstead/containerd/containerd.sock")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	m.Sh("podstead images load /root/pause.tar /root/busybox.tar")
	want := map[string]string{"a": "1", "b": "1"}
	apply(m, testPod{name: "a", revision: "1"}, testPod{name: "b", revision: "1"})
	awaitReady(m, settle, "a", "b")
	running := func() string {
		return strings.Join([]string{mainPid(m, "a"), mainPid(m, "b"),
			m.Sh("pgrep -f '/containerd[ ].*/podstead/containerd/config.toml'")}, " ")
	}
	// systemd is the init process, and so the cgroup driver.
	if cgroup := m.Sh("cut -d: -f3 /proc/" + mainPid(m, "a") + "/cgroup"); !strings.HasPrefix(cgroup, "/podstead.slice/") {
		t.Errorf("the container is in the cgroup %s, want one below /podstead.slice", cgroup)
	}
	before := running()
	m.Sh("systemctl restart podstead")
	awaitReady(m, settle, "a", "b")
	if after := running(); after != before {
		t.Errorf("the processes of the pods and of containerd are %s after a restart of the daemon, were %s", after, before)
	}
	for _, boot := range []func(){m.Reboot, func() { m.Sh("sync"); m.PowerCut(); m.Start() }} {
		boot()
		awaitInstances(m, want, settle)
		awaitReady(m, settle, "a", "b")
	}
	if out, err := m.Try("systemctl is-active containerd"); err == nil {
		t.Errorf("the containerd of the system is %s", out)
	}
}
