package machine

import (
	"errors"
	"strings"
)

// The root file system is read-only for a while, as after an error of the disk: pods go on, the
// fault is shown, and after it a manifest takes effect.
func testReadOnlyRoot(m *Machine) {
	t := m.t
	apply(m, testPod{name: "a", revision: "1"}, testPod{name: "b", revision: "1"})
	awaitReady(m, settle, "a", "b")
	before := mainPid(m, "a") + " " + mainPid(m, "b")
	m.Sh("sync; echo u >/proc/sysrq-trigger")
	m.Await("the root is read-only", settle, func() error {
		if _, err := m.Try("touch /root/x"); err == nil {
			return errors.New("it can be written to")
		}
		return nil
	})
	m.Sh("systemctl restart podstead || true")
	m.Await("the fault is shown", settle, func() error {
		if out, _ := m.Try("podstead status"); !strings.Contains(out, "Storage:") {
			return errors.New(out)
		}
		return nil
	})
	if after := mainPid(m, "a") + " " + mainPid(m, "b"); after != before {
		t.Errorf("the processes are %s, were %s", after, before)
	}
	m.Sh("mount -o remount,rw /")
	apply(m, testPod{name: "b", revision: "2"})
	awaitInstances(m, map[string]string{"a": "1", "b": "2"}, settle)
	m.Await("the fault is gone", settle, func() error {
		if out, _ := m.Try("podstead status"); strings.Contains(out, "Storage:") {
			return errors.New(out)
		}
		return nil
	})
}

// The root directory is lost while the daemon is down: what runs is adopted, and after a boot
// everything runs once.
func testLostRootDirectory(m *Machine) {
	t := m.t
	apply(m, testPod{name: "a", revision: "1"}, testPod{name: "b", revision: "1"})
	awaitReady(m, settle, "a", "b")
	before := mainPid(m, "a") + " " + mainPid(m, "b")
	m.Sh("systemctl stop podstead && rm -rf /var/lib/podstead && systemctl start podstead")
	awaitReady(m, settle, "a", "b")
	if after := mainPid(m, "a") + " " + mainPid(m, "b"); after != before {
		t.Errorf("the processes are %s, were %s", after, before)
	}
	m.Sh("systemctl stop podstead && rm -rf /var/lib/podstead && sync")
	m.PowerCut()
	m.Start()
	awaitInstances(m, map[string]string{"a": "1", "b": "1"}, settle)
	awaitReady(m, settle, "a", "b")
}
