package machine

import (
	"errors"
	"fmt"
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

// /etc/pods is a file system whose disk appears long after the boot: its pods run from the
// checkpoint before it is there, and go on when it is.
func testLateMount(m *Machine) {
	t := m.t
	m.Write("/etc/systemd/system/slow-disk.service", `[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=infinity
ExecStart=sh -c 'until [ -e /run/disk-is-there ]; do sleep 1; done'
`)
	// The machine has no static device nodes of modules that are not loaded.
	m.Write("/etc/modules-load.d/loop.conf", "loop\n")
	m.Sh(`modprobe loop && touch /run/disk-is-there
truncate -s 32M /root/pods.img && mke2fs -q -t ext4 /root/pods.img
echo '/root/pods.img /etc/pods ext4 loop,nofail,x-systemd.requires=slow-disk.service 0 0' >>/etc/fstab
systemctl daemon-reload && mount /etc/pods`)
	apply(m, testPod{name: "a", revision: "1"}, testPod{name: "b", revision: "1"})
	want := map[string]string{"a": "1", "b": "1"}
	awaitInstances(m, want, settle)
	awaitReady(m, settle, "a", "b")
	m.Reboot()
	// It is not mounted yet.
	awaitInstances(m, want, settle)
	awaitReady(m, settle, "a", "b")
	if out := m.Sh("ls /etc/pods"); out != "" {
		t.Fatalf("the directory is not empty: %s", out)
	}
	before := mainPid(m, "a") + " " + mainPid(m, "b")
	m.Sh("touch /run/disk-is-there")
	m.Await("the disk is mounted", settle,
		func() error { _, err := m.Try("mountpoint -q /etc/pods && ls /etc/pods/a.yaml"); return err })
	apply(m, testPod{name: "c", revision: "1"})
	want["c"] = "1"
	awaitInstances(m, want, settle)
	if after := mainPid(m, "a") + " " + mainPid(m, "b"); after != before {
		t.Errorf("the mount replaced the processes %s by %s", before, after)
	}
	// Unmounting ends no pod, so they end before.
	m.Sh("rm /etc/pods/*.yaml")
	awaitInstances(m, nil, settle)
}

// A clock that is in 1970 at boot and is set later, forward and back, touches no pod.
func testClock(m *Machine) {
	t := m.t
	probed := ", livenessProbe: {exec: {command: ['true']}, periodSeconds: 2}"
	apply(m, testPod{name: "a", revision: "1", container: probed}, testPod{name: "b", revision: "1", container: probed})
	awaitReady(m, settle, "a", "b")
	m.Poweroff()
	m.Options().Clock = "1970-01-01T00:00:00"
	m.Start()
	want := map[string]string{"a": "1", "b": "1"}
	awaitInstances(m, want, settle)
	awaitReady(m, settle, "a", "b")
	before := mainPid(m, "a") + " " + mainPid(m, "b")
	for i, date := range []string{"1970-01-02", "2037-01-01", "1999-01-01", "2026-11-22"} {
		m.Sh("date -s " + date)
		name := fmt.Sprintf("c%d", i)
		apply(m, testPod{name: name, revision: "1"})
		want[name] = "1"
		awaitInstances(m, want, settle)
		awaitReady(m, settle, "a", "b", name)
		if after := mainPid(m, "a") + " " + mainPid(m, "b"); after != before {
			t.Fatalf("%s: the processes are %s, were %s", date, after, before)
		}
	}
}

// A disk that another program filled: no pod ends, the daemon starts with it at the next boot, and
// when there is space again, all run and manifests take effect.
func testFullDisk(m *Machine) {
	t := m.t
	apply(m, testPod{name: "a", revision: "1"}, testPod{name: "b", revision: "1"})
	awaitReady(m, settle, "a", "b")
	before := mainPid(m, "a") + " " + mainPid(m, "b")
	// What only root may use is filled with data.
	m.Sh("fallocate -l $(df --output=avail -B1 / | tail -n 1) /root/ballast; cat /dev/zero >>/root/ballast 2>/dev/null; " +
		"sync; true")
	m.Await("the condition is reported", settle, func() error {
		if out, _ := m.Try("podstead status"); !strings.Contains(out, "DiskPressure") {
			return errors.New(out)
		}
		return nil
	})
	if after := mainPid(m, "a") + " " + mainPid(m, "b"); after != before {
		t.Errorf("the processes are %s, were %s", after, before)
	}
	m.Reboot()
	m.Await("the daemon reports the pods", settle, func() error {
		all, err := pods(m)
		if err == nil && len(all) != 2 {
			err = fmt.Errorf("%d pods", len(all))
		}
		return err
	})
	t.Logf("with a full disk, after the boot:\n%s", m.Sh("df / | tail -n 1; podstead get pods; true"))
	m.Sh("rm /root/ballast")
	apply(m, testPod{name: "b", revision: "2"})
	awaitInstances(m, map[string]string{"a": "1", "b": "2"}, settle)
}
