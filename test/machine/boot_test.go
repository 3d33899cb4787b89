package machine

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Ten pods run again after a boot, those with the highest priority first, also if the URL source
// does not respond and if there is no network. The test logs how long it takes.
func testBoot(m *Machine) {
	t := m.t
	want, names := map[string]string{}, []string{}
	var all []testPod
	for i := range 10 {
		p := testPod{name: fmt.Sprintf("p%d", i), revision: "1"}
		if i >= 7 {
			p.spec = ", priority: 1000"
		}
		all = append(all, p)
		names = append(names, p.name)
		want[p.name] = "1"
	}
	apply(m, all...)
	awaitInstances(m, want, settle)
	awaitReady(m, settle, names...)

	boot := func(what string) {
		t.Helper()
		used := m.CPUTime()
		m.Start()
		awaitInstances(m, want, bootTimeout)
		reported := awaitReady(m, settle, names...)
		ready := strings.Fields(m.Sh("cat /proc/uptime"))[0]
		daemon, last := checkPriorityOrder(m)
		t.Logf("%s: from the kernel's start: the daemon %.1f s, the last of ten pods runs %.1f s, all are Ready within %s "+
			"s, after %.0f s of QEMU's processor time",
			what, daemon.Seconds(), last.Seconds(), ready, (m.CPUTime() - used).Seconds())
		for name, p := range reported {
			if n := p.Status.ContainerStatuses[0].RestartCount; n == 0 {
				t.Errorf("%s: %s has the restart count %d after a boot", what, name, n)
			}
		}
	}
	m.Sh("systemctl reboot")
	m.AwaitOff(guestReset)
	boot("reboot")
	serviceWith(m, "--manifest-url http://192.0.2.1/pods.yaml --http-check-frequency 5s")
	m.Poweroff()
	boot("URL down")
	m.Poweroff()
	m.Options().NoNetwork = true
	boot("no network, URL down")
	// systemd would wait two minutes for it.
	if state, _ := m.Try("systemctl is-active network-online.target"); strings.HasPrefix(state, "active") {
		t.Errorf("the boot waited for network-online.target: %s", state)
	}
}

// checkPriorityOrder checks by the start times of their processes that each pod with a priority
// started before each one without, unless it started 20 s after the daemon: the others wait no
// longer. It returns when the daemon and the last pod started, since the boot.
func checkPriorityOrder(m *Machine) (daemon, last time.Duration) {
	m.t.Helper()
	start := func(pid string) time.Duration {
		m.t.Helper()
		fields := strings.Fields(m.Sh("sed 's/.*) //' /proc/" + pid + "/stat"))
		ticks, err := strconv.Atoi(fields[19])
		if err != nil {
			m.t.Fatal(err)
		}
		return time.Duration(ticks) * time.Second / 100
	}
	daemon = start(strings.TrimSpace(m.Sh("systemctl show -P MainPID podstead")))
	var lastHigh time.Duration
	for i := 7; i < 10; i++ {
		lastHigh = max(lastHigh, start(mainPid(m, fmt.Sprintf("p%d", i))))
	}
	for i := range 7 {
		at := start(mainPid(m, fmt.Sprintf("p%d", i)))
		if at < lastHigh && at < daemon+20*time.Second {
			m.t.Errorf("p%d started %v after the daemon, before the last pod with a higher priority, which started after %v", i,
				at-daemon, lastHigh-daemon)
		}
		last = max(last, at)
	}
	return daemon, max(last, lastHigh)
}
