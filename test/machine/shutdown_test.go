package machine

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// logTo is a volume of the node that keeps what a container writes when it ends.
const (
	logVolume = ", volumes: [{name: log, hostPath: {path: /root/log, type: DirectoryOrCreate}}]"
	logMount  = ", volumeMounts: [{name: log, mountPath: /log}]"
)

// slowPod is a pod that logs how it ends: its preStop hook takes 3 s and its SIGTERM handler
// 5 s.
func slowPod(name, spec string) testPod {
	line := func(what string) string { return fmt.Sprintf("echo %s %s >>/log/order; sync /log/order; ", name, what) }
	return testPod{
		name: name, revision: "1", grace: 60, spec: logVolume + spec,
		script: "trap '" + line("term") + "sleep 5; " + line("end") + "exit 0' TERM; while :; do sleep 1000 & wait; done",
		container: logMount + fmt.Sprintf(", lifecycle: {preStop: {exec: {command: [sh, -c, %q]}}}",
			line("hook")+"sleep 3; "+line("hooked")),
	}
}

const criticalSpec = ", priorityClassName: system-node-critical"

// A reboot and a power-off terminate pods in the order of their priority groups, with all hooks
// and handlers, and all run again after the boot.
func TestShutdown(t *testing.T) {
	m := newInstalled(t)
	m.Start()
	testShutdown(m, true)
	m.Sh("rm /etc/pods/*.yaml")
	awaitInstances(m, nil, settle)
	// With logind the order holds with either cgroup driver.
	m.Sh("sed -i 's/SystemdCgroup = true/SystemdCgroup = false/' /etc/containerd/config.toml && systemctl restart " +
		"containerd podstead")
	testShutdown(m, false)
}

// testShutdown reboots the machine, or switches it off and on.
func testShutdown(m *Machine, reboot bool) {
	t := m.t
	apply(m, slowPod("normal", ""), slowPod("critical", criticalSpec),
		testPod{name: "job", revision: "1", spec: ", restartPolicy: OnFailure"},
		testPod{name: "once", revision: "1", spec: ", restartPolicy: Never"})
	awaitReady(m, settle, "normal", "critical", "job", "once")
	if out := m.Sh("systemd-inhibit --list"); !strings.Contains(out, "podstead") {
		t.Errorf("podstead holds no inhibitor lock:\n%s", out)
	}
	want := map[string]string{"normal": "1", "critical": "1", "job": "1"}
	order := strings.Join([]string{"normal hook", "normal hooked", "normal term", "normal end", "critical hook",
		"critical hooked", "critical term", "critical end"}, "\n")
	m.Sh("rm -f /root/log/order")
	if reboot {
		m.Reboot()
	} else {
		m.Poweroff()
		m.Start()
	}
	if got := m.Sh("cat /root/log/order"); got != order {
		t.Errorf("the pods ended with\n%s\nwant\n%s", got, order)
	}
	awaitInstances(m, want, settle)
	all := awaitReady(m, settle, "normal", "critical", "job")
	for name := range want {
		if n := all[name].Status.ContainerStatuses[0].RestartCount; n == 0 {
			t.Errorf("%s has the restart count %d after the boot", name, n)
		}
	}
	// It may not run twice.
	if s := all["once"].Status; s.Phase != v1.PodFailed || s.Reason != "Terminated" {
		t.Errorf("once is %s %s, want Failed Terminated", s.Phase, s.Reason)
	}
}
