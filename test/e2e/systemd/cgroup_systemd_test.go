package systemd

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// With the systemd cgroup driver, pods are slices: systemd has their values, keeps them over a
// daemon-reload, and removes them with the pod.
func TestPodSlices(t *testing.T) {
	t.Parallel()
	s := boot(t, false, map[string]string{
		"etc/containerd/config.toml": harness.SystemdDriver,
		"etc/pods/p.yaml": strings.Replace(harness.SleepPod("p", "one"), "spec:\n", "spec:\n  hostNetwork: true\n", 1) +
			harness.Resources("requests: {cpu: 100m}, limits: {cpu: 200m, memory: 40Mi}"),
	})
	n := s.Node()
	p := n.AwaitRunning("p")
	// The machine has its own PID namespace and view of the cgroups.
	at := s.Try("sh", "-c", fmt.Sprintf("grep :memory: /proc/%d/cgroup | cut -d: -f3", p.Pid))
	slice := filepath.Base(filepath.Dir(at))
	if !strings.HasPrefix(slice, "podstead-burstable-pod") || !strings.HasSuffix(slice, ".slice") {
		t.Fatalf("the container is in %s, want the pod's slice", at)
	}
	check := func(when string) {
		t.Helper()
		for property, want := range map[string]string{"CPUQuotaPerSecUSec": "200ms", "MemoryLimit": fmt.Sprint(40 << 20),
			"CPUShares": "102", "ActiveState": "active"} {
			if got := s.Try("systemctl", "show", "-p", property, "--value", slice); got != want {
				t.Errorf("%s: %s of %s is %s, want %s", when, property, slice, got, want)
			}
		}
		for file, want := range map[string]string{"cpu/cpu.cfs_quota_us": "20000",
			"memory/memory.limit_in_bytes": fmt.Sprint(40 << 20), "cpu/cpu.shares": "102"} {
			controller, name := filepath.Split(file)
			if got := s.Try("cat", filepath.Join("/sys/fs/cgroup", controller, filepath.Dir(at), name)); got != want {
				t.Errorf("%s: %s is %s, want %s", when, file, got, want)
			}
		}
	}
	check("at first")
	s.Run("systemctl", "daemon-reload")
	check("after a reload")
	s.Run("sh", "-c", "rm /etc/pods/p.yaml")
	n.AwaitGone("p")
	n.Await("the slice is removed", func() error {
		if state := s.Try("systemctl", "show", "-p", "ActiveState", "--value", slice); state != "inactive" {
			return errors.New(state)
		}
		if left := harness.PodCgroups(strings.TrimSuffix(strings.TrimPrefix(slice, "podstead-burstable-"), ".slice")); len(
			left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	s.Run("systemctl", "stop", "podstead")
}
