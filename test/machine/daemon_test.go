package machine

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// The daemon is restarted, killed, hung and replaced: each container keeps its process.
func TestDaemonRestarts(t *testing.T) {
	m := newInstalled(t)
	m.Start()
	testDaemonRestarts(m)
}

func testDaemonRestarts(m *Machine) {
	t := m.t
	apply(m, testPod{name: "a", revision: "1"}, testPod{name: "b", revision: "1"})
	awaitReady(m, settle, "a", "b")
	containers := [2]string{mainPid(m, "a"), mainPid(m, "b")}
	daemon := func() string { return strings.TrimSpace(m.Sh("systemctl show -P MainPID podstead")) }
	for _, step := range []struct{ name, command string }{
		{"restart", "systemctl restart podstead"},
		{"kill -9", "kill -9 $(systemctl show -P MainPID podstead)"},
		{"watchdog", "kill -STOP $(systemctl show -P MainPID podstead)"},
		{"upgrade", "cp /usr/local/bin/podstead /root/new && install -m 0755 /root/new /usr/local/bin/podstead && systemctl restart podstead"},
		{"containerd", "systemctl restart containerd && systemctl restart podstead"},
		{"daemon-reload", "systemctl daemon-reload && systemctl restart podstead"},
	} {
		before := daemon()
		if _, err := m.Run(context.Background(), "sh", "-c", step.command); err != nil {
			t.Fatal(err)
		}
		m.Await("another daemon is active after "+step.name, settle, func() error {
			if now := daemon(); now == before || now == "0" {
				return fmt.Errorf("the main process is %s, was %s", now, before)
			}
			_, err := m.Try("systemctl is-active podstead")
			return err
		})
		awaitReady(m, settle, "a", "b")
		if now := [2]string{mainPid(m, "a"), mainPid(m, "b")}; now != containers {
			t.Fatalf("the main processes are %s after %s, were %s", now, step.name, containers)
		}
	}
}
