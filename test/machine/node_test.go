package machine

import (
	"fmt"
	"testing"
)

// nodeTests share one machine, since its installation and each boot take minutes. Each starts
// with a running machine without pods.
var nodeTests = []struct {
	name string
	test func(m *Machine)
}{
	{"CgroupV2", testCgroupV2},
	{"SwapAndMemoryQoS", testSwapAndMemoryQoS},
	{"ReadOnlyRoot", testReadOnlyRoot},
	{"MemoryPressure", testMemoryPressure},
	{"DiskPressure", testDiskPressure},
	{"PIDPressure", testPIDPressure},
	{"LostRootDirectory", testLostRootDirectory},
	{"Boot", testBoot},
	{"FullDisk", testFullDisk},
	{"LateMount", testLateMount},
	{"EmptyNetworkResults", testEmptyResults},
	{"Clock", testClock},
	{"CtrlAltDel", testCtrlAltDel},
	{"UserNamespaces", testUserNamespaces},
	{"ProjectQuotas", testProjectQuotas},
	{"EmptyDirQuotas", testEmptyDirQuotas},
	{"CSIVolume", testCSIVolume},
}

// What a node does on a real kernel with a real init, beyond the pods themselves.
func TestNode(t *testing.T) {
	m := newInstalled(t)
	for _, one := range nodeTests {
		t.Run(one.name, func(t *testing.T) {
			m.runFor(t, func() {
				clearNode(m)
				one.test(m)
			})
		})
	}
}

// runFor lets a subtest use the machine; what fails, fails the subtest.
func (m *Machine) runFor(t *testing.T, test func()) {
	parent := m.t
	m.t = t
	defer func() {
		if t.Failed() {
			m.logState()
		}
		m.t = parent
	}()
	test()
}

// clearNode starts the machine if it is off, and removes what another test has left.
func clearNode(m *Machine) {
	m.t.Helper()
	o := m.Options()
	if o.Clock != "" || o.NoNetwork {
		m.PowerCut()
		o.Clock, o.NoNetwork = "", false
	}
	if m.off() {
		m.Start()
	}
	m.Sh(
		`mount -o remount,rw / && rm -rf /etc/systemd/system/podstead.service.d && rm -f /root/log/* /root/ballast /etc/systemd/system/slow-disk.service
umount /var/lib/podstead/pods 2>/dev/null; umount /mnt/quota 2>/dev/null; sed -i '\|/mnt/quota|d' /etc/fstab; rm -f /etc/projects /root/quota.img /etc/modules-load.d/quota.conf
umount /etc/pods 2>/dev/null; sed -i '\|/etc/pods|d' /etc/fstab; rm -f /etc/pods/*
systemctl daemon-reload && systemctl reset-failed && systemctl restart podstead`)
	awaitInstances(m, nil, settle)
	m.Await("no pod is reported", settle, func() error {
		if all, err := pods(m); err != nil || len(all) > 0 {
			return fmt.Errorf("%d pods, %v", len(all), err)
		}
		return nil
	})
}
