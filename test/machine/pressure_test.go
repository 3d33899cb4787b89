package machine

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// Real pressure: a pod that fills the memory is evicted before the kernel kills something, others
// stay, and it runs again later. The kernel notifies the daemon through its pressure stall information.
func testMemoryPressure(m *Machine) {
	t := m.t
	m.Sh("dmesg --clear")
	serviceWith(m, "--eviction-hard memory.available<700Mi --eviction-pressure-transition-period 10s")
	apply(m, testPod{name: "modest", revision: "1", container: limits("requests: {memory: 32Mi}")})
	awaitReady(m, settle, "modest")
	m.Sh("ls -l /proc/$(systemctl show -P MainPID podstead)/fd | grep -q '[m]emory.pressure\\|pressure/memory'")
	before := mainPid(m, "modest")
	apply(m, testPod{name: "hog", revision: "1", grace: 1,
		script:    "dd if=/dev/zero of=/cache/x bs=1M count=1400; sleep 100000",
		spec:      ", volumes: [{name: cache, emptyDir: {medium: Memory}}]",
		container: ", volumeMounts: [{name: cache, mountPath: /cache}]"})
	awaitEvicted(m, "hog", "memory")
	if after := mainPid(m, "modest"); after != before {
		t.Errorf("the other pod was replaced: process %s, was %s", after, before)
	}
	if out := m.Sh("dmesg | grep -i 'out of memory\\|oom-kill' || true"); out != "" {
		t.Errorf("the kernel killed something: %s", out)
	}
	m.Await("the memory is free", settle, func() error {
		_, err := m.Try("test $(awk '/MemAvailable/ { print $2 }' /proc/meminfo) -gt 1000000")
		return err
	})
	m.Sh("rm /etc/pods/hog.yaml")
	awaitNoCondition(m, "MemoryPressure")
}

// awaitNoCondition waits until the node has a condition no more.
func awaitNoCondition(m *Machine, condition string) {
	m.t.Helper()
	m.Await("the condition is gone", settle, func() error {
		if out, err := m.Try("podstead status"); err != nil || strings.Contains(out, condition) {
			return errors.Join(errors.New(out), err)
		}
		return nil
	})
}

// Real pressure on the disk: a pod that fills it is evicted, with its files, and its condition goes
// away. Others stay, although they write a little as well.
func testDiskPressure(m *Machine) {
	t := m.t
	serviceWith(m, "--eviction-hard nodefs.available<1Gi --eviction-pressure-transition-period 10s")
	scratch := ", volumes: [{name: scratch, emptyDir: {}}]"
	mount := ", volumeMounts: [{name: scratch, mountPath: /scratch}]"
	apply(m, testPod{name: "modest", revision: "1", script: "echo little >/scratch/x; " + sleepScript, spec: scratch,
		container: mount})
	awaitReady(m, settle, "modest")
	before := mainPid(m, "modest")
	space := func() int {
		t.Helper()
		var mib int
		if _, err := fmt.Sscan(m.Sh("df --output=avail -BM / | tail -n 1 | tr -d M"), &mib); err != nil {
			t.Fatal(err)
		}
		return mib
	}
	free := space()
	apply(m, testPod{name: "hog", revision: "1", grace: 1,
		script: fmt.Sprintf("dd if=/dev/zero of=/scratch/x bs=1M count=%d; sleep 100000", free-700), spec: scratch,
		container: mount})
	awaitEvicted(m, "hog", "ephemeral-storage")
	if after := mainPid(m, "modest"); after != before {
		t.Errorf("the other pod was replaced: process %s, was %s", after, before)
	}
	m.Sh("rm /etc/pods/hog.yaml")
	m.Await("the space is free", settle, func() error {
		if now := space(); now < free-300 {
			return fmt.Errorf("%d MiB are free, %d MiB before", now, free)
		}
		return nil
	})
	awaitNoCondition(m, "DiskPressure")
}

// Real pressure on the process IDs: a pod that forks without end is evicted before the kernel has
// none left, and others stay. It has five containers, because systemd limits each scope to 15 % of the
// process IDs (DefaultTasksMax).
func testPIDPressure(m *Machine) {
	t := m.t
	m.Sh("sysctl -w kernel.pid_max=3000")
	defer m.Sh("sysctl -w kernel.pid_max=32768")
	serviceWith(m, "--eviction-hard pid.available<50% --eviction-pressure-transition-period 10s")
	apply(m, testPod{name: "modest", revision: "1"})
	awaitReady(m, settle, "modest")
	before := mainPid(m, "modest")
	const fork = "for i in $(seq 400); do sleep 100000 & done; wait"
	var more []string
	for i := range 4 {
		more = append(more, fmt.Sprintf("{name: more%d, restartPolicy: Always, image: %s, command: [sh, -c, %q]}", i,
			testbed.BusyboxImage, fork))
	}
	apply(m, testPod{name: "hog", revision: "1", grace: 1, script: fork,
		spec: ", initContainers: [" + strings.Join(more, ", ") + "]"})
	awaitEvicted(m, "hog", "pids")
	if after := mainPid(m, "modest"); after != before {
		t.Errorf("the other pod was replaced: process %s, was %s", after, before)
	}
	m.Sh("rm /etc/pods/hog.yaml")
	awaitNoCondition(m, "PIDPressure")
}

// awaitEvicted waits until a pod is evicted, for a resource that its message names.
func awaitEvicted(m *Machine, name, resource string) {
	m.t.Helper()
	m.Await("the pod is evicted", settle, func() error {
		all, err := pods(m)
		if err != nil {
			return err
		}
		if s := all[name].Status; s.Phase != v1.PodFailed || s.Reason != "Evicted" || !strings.Contains(s.Message, resource) {
			return fmt.Errorf("%s %s %s", s.Phase, s.Reason, s.Message)
		}
		return nil
	})
}
