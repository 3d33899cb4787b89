package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// systemdDriver makes runc use the systemd cgroup driver.
const systemdDriver = testbed.SystemContainerd16 + `  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
`

// With the systemd cgroup driver, pods are slices: systemd has their values, keeps them over a
// daemon-reload, and removes them with the pod.
func TestPodSlices(t *testing.T) {
	t.Parallel()
	s := boot(t, false, map[string]string{
		"etc/containerd/config.toml": systemdDriver,
		"etc/pods/p.yaml": strings.Replace(sleepPod("p", "one"), "spec:\n", "spec:\n  hostNetwork: true\n", 1) +
			resources("requests: {cpu: 100m}, limits: {cpu: 200m, memory: 40Mi}"),
	})
	n := s.node()
	p := n.awaitRunning("p")
	// The machine has its own PID namespace and view of the cgroups.
	at := s.try("sh", "-c", fmt.Sprintf("grep :memory: /proc/%d/cgroup | cut -d: -f3", p.Pid))
	slice := filepath.Base(filepath.Dir(at))
	if !strings.HasPrefix(slice, "podstead-burstable-pod") || !strings.HasSuffix(slice, ".slice") {
		t.Fatalf("the container is in %s, want the pod's slice", at)
	}
	check := func(when string) {
		t.Helper()
		for property, want := range map[string]string{"CPUQuotaPerSecUSec": "200ms", "MemoryLimit": fmt.Sprint(40 << 20), "CPUShares": "102", "ActiveState": "active"} {
			if got := s.try("systemctl", "show", "-p", property, "--value", slice); got != want {
				t.Errorf("%s: %s of %s is %s, want %s", when, property, slice, got, want)
			}
		}
		for file, want := range map[string]string{"cpu/cpu.cfs_quota_us": "20000", "memory/memory.limit_in_bytes": fmt.Sprint(40 << 20), "cpu/cpu.shares": "102"} {
			controller, name := filepath.Split(file)
			if got := s.try("cat", filepath.Join("/sys/fs/cgroup", controller, filepath.Dir(at), name)); got != want {
				t.Errorf("%s: %s is %s, want %s", when, file, got, want)
			}
		}
	}
	check("at first")
	s.run("systemctl", "daemon-reload")
	check("after a reload")
	s.run("sh", "-c", "rm /etc/pods/p.yaml")
	n.awaitGone("p")
	n.await("the slice is removed", func() error {
		if state := s.try("systemctl", "show", "-p", "ActiveState", "--value", slice); state != "inactive" {
			return errors.New(state)
		}
		if left := podCgroups(strings.TrimSuffix(strings.TrimPrefix(slice, "podstead-burstable-"), ".slice")); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	s.run("systemctl", "stop", "podstead")
}
