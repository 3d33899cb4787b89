package machine

import (
	"strings"
)

// Without logind's warning, as for Ctrl-Alt-Del, systemd stops the daemon and the containers at
// once: no order, but each container has its time.
func testCtrlAltDel(m *Machine) {
	t := m.t
	apply(m, slowPod("normal", ""), slowPod("critical", criticalSpec))
	awaitReady(m, settle, "normal", "critical")
	// What the kernel does for the keys.
	m.Sh("kill -INT 1")
	m.AwaitOff(guestReset)
	m.Start()
	got := m.Sh("cat /root/log/order")
	for _, line := range []string{"normal term", "normal end", "critical term", "critical end"} {
		if !strings.Contains(got, line) {
			t.Errorf("the log of the pods lacks %q:\n%s", line, got)
		}
	}
	awaitInstances(m, map[string]string{"normal": "1", "critical": "1"}, settle)
}
