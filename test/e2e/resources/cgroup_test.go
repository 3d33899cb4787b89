package resources

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

func oomScoreAdj(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if err != nil {
		t.Fatal(err)
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return score
}

// Each QoS class has its cgroup, and the root, the QoS classes, the pods and the containers
// have the expected values. No cgroup is left after the pods are removed.
func TestPodCgroups(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("cpu", "memory", "pids") {
			return
		}
		n.Args = []string{"--system-reserved", "memory=1Gi,cpu=100m", "--kube-reserved", "memory=512Mi", "--pod-max-pids",
			"200"}
		n.WriteManifest("g.yaml", harness.SleepPod("g", "one")+harness.Resources("limits: {cpu: 200m, memory: 40Mi}"))
		n.WriteManifest("b.yaml", harness.SleepPod("b", "one")+
			harness.Resources("requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 300m, memory: 32Mi}")+
			"    - {name: other, image: "+testbed.BusyboxImage+", command: [sh, -c, 'trap exit TERM; sleep 100000 & wait'], "+
			"resources: {requests: {cpu: 50m}, limits: {cpu: 300m}}}\n")
		n.WriteManifest("e.yaml", harness.SleepPod("e", "one"))
		n.MustStart()
		root := n.CgroupRoot()
		instances := map[string]harness.Instance{}
		uids := map[string]string{}
		for name, tier := range map[string]string{"g": "", "b": "burstable", "e": "besteffort"} {
			instances[name] = n.AwaitRunning(name)
			p := n.AwaitReady(name)
			uids[name] = string(p.UID)
			for _, controller := range []string{"cpu", "memory", "pids"} {
				at, err := harness.CgroupPath(instances[name].Pid, controller)
				want := filepath.Join(root, tier, "pod"+uids[name])
				if err != nil || filepath.Dir(at) != want {
					t.Fatalf("%s: the container is in %s (%v), want it below %s", name, at, err, want)
				}
				uids[name+controller] = at
			}
		}
		n.AwaitContainer("b", "other")
		var info struct{ memory, pids int64 }
		data, err := os.ReadFile("/proc/meminfo")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(string(data), "MemTotal: %d kB", &info.memory); err != nil {
			t.Fatal(err)
		}
		pod := func(tier, name string) string { return filepath.Join(root, tier, "pod"+uids[name]) }
		for _, c := range []struct{ controller, path, file, want string }{
			{"memory", root, "memory.limit_in_bytes", fmt.Sprint(info.memory<<10 - 1536<<20)},
			{"cpu", filepath.Join(root, "besteffort"), "cpu.shares", "2"},
			{"cpu", filepath.Join(root, "burstable"), "cpu.shares", "153"}, // 150m

			{"cpu", pod("", "g"), "cpu.shares", "204"},
			{"cpu", pod("", "g"), "cpu.cfs_quota_us", "20000"},
			{"memory", pod("", "g"), "memory.limit_in_bytes", fmt.Sprint(40 << 20)},
			{"pids", pod("", "g"), "pids.max", "200"},
			{"cpu", uids["gcpu"], "cpu.shares", "204"},
			{"cpu", uids["gcpu"], "cpu.cfs_quota_us", "20000"},
			{"memory", uids["gmemory"], "memory.limit_in_bytes", fmt.Sprint(40 << 20)},

			{"cpu", pod("burstable", "b"), "cpu.shares", "153"},
			{"cpu", pod("burstable", "b"), "cpu.cfs_quota_us", "60000"},
			// One container has no limit, so the pod has none.
			{"memory", pod("burstable", "b"), "memory.limit_in_bytes", "9223372036854771712"},
			{"memory", uids["bmemory"], "memory.limit_in_bytes", fmt.Sprint(32 << 20)},
			{"cpu", uids["bcpu"], "cpu.shares", "102"},

			{"cpu", pod("besteffort", "e"), "cpu.shares", "2"},
			{"cpu", pod("besteffort", "e"), "cpu.cfs_quota_us", "-1"},
			{"pids", pod("besteffort", "e"), "pids.max", "200"},
		} {
			n.MustHaveValue(c.controller, c.path, c.file, c.want)
		}
		// A runtime without CAP_SYS_RESOURCE cannot set a value below its own.
		least := max(oomScoreAdj(t, n.Runtime.Pid()), -997)
		if got := oomScoreAdj(t, instances["g"].Pid); got != -997 && got != least {
			t.Errorf("Guaranteed: oom_score_adj is %d, want -997, or the runtime's own value, %d", got, least)
		}
		if got := oomScoreAdj(t, instances["e"].Pid); got != 1000 {
			t.Errorf("BestEffort: oom_score_adj is %d, want 1000", got)
		}
		if got, want := oomScoreAdj(t, instances["b"].Pid), int(1000-1000*(16<<10)/info.memory); got != min(want, 999) {
			t.Errorf("Burstable: oom_score_adj is %d, want %d", got, want)
		}
		// A restarted daemon does not change them.
		n.Restart()
		for name := range instances {
			n.AwaitReady(name)
			n.MustStillRun(name, instances[name])
		}
		for name := range instances {
			n.RemoveManifest(name + ".yaml")
		}
		for name := range instances {
			n.AwaitGone(name)
			n.Await("all cgroups of "+name+" are removed", func() error {
				if left := harness.PodCgroups(uids[name]); len(left) > 0 {
					return fmt.Errorf("%v", left)
				}
				return nil
			})
		}
		n.Await("the QoS class has the minimum CPU shares", func() error {
			if got, err := harness.CgroupValue("cpu", filepath.Join(root, "burstable"), "cpu.shares"); err != nil || got != "2" {
				return fmt.Errorf("cpu.shares is %s (%v)", got, err)
			}
			return nil
		})
	})
}

// Pod-level resources apply to the pod's cgroup, and so does its overhead. The containers have
// no limits of their own.
func TestPodLevelResources(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("cpu", "memory") {
			return
		}
		n.WriteManifest("p.yaml", strings.Replace(harness.SleepPod("p", "one"), "spec:\n",
			"spec:\n  resources: {requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 200m, memory: 64Mi}}\n"+
				"  overhead: {cpu: 50m, memory: 8Mi}\n", 1)+harness.Resources("requests: {ephemeral-storage: 1Mi}"))
		// Using more memory than the pod's limit kills a container without its own limit.
		n.WriteManifest("o.yaml", strings.Replace(harness.ScriptPod("o", "one", 1, "sleep 0.2; tail /dev/zero"), "spec:\n",
			"spec:\n  resources: {limits: {memory: 24Mi}}\n", 1))
		n.MustStart()
		main := n.AwaitRunning("p")
		p := n.AwaitReady("p")
		if p.Status.QOSClass != v1.PodQOSBurstable {
			t.Errorf("QoS class %s", p.Status.QOSClass)
		}
		pod := filepath.Join(n.CgroupRoot(), "burstable", "pod"+string(p.UID))
		n.MustHaveValue("cpu", pod, "cpu.shares", "153") // 150m
		n.MustHaveValue("cpu", pod, "cpu.cfs_quota_us", "25000")
		n.MustHaveValue("memory", pod, "memory.limit_in_bytes", fmt.Sprint(72<<20))
		at, err := harness.CgroupPath(main.Pid, "memory")
		if err != nil || filepath.Dir(at) != pod {
			t.Fatalf("the container is in %s (%v), want it below %s", at, err, pod)
		}
		// A container without its own limits has those of the pod, without the overhead.
		n.MustHaveValue("memory", at, "memory.limit_in_bytes", fmt.Sprint(64<<20))
		if at, err = harness.CgroupPath(main.Pid, "cpu"); err != nil {
			t.Fatal(err)
		}
		n.MustHaveValue("cpu", at, "cpu.cfs_quota_us", "20000")
		n.MustHaveValue("cpu", at, "cpu.shares", "2")
		n.AwaitStatus("o", "OOMKilled", oomKilled)
	})
}

// A hugepages limit is set in the kernel. Without hugepages on the node, the pod is held.
func TestHugePages(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one")+
			harness.Resources("limits: {hugepages-2Mi: 4Mi, memory: 32Mi}"))
		n.WriteManifest("fine.yaml", harness.SleepPod("fine", "one"))
		n.MustStart()
		n.AwaitRunning("fine")
		pages, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
		if err != nil || strings.TrimSpace(string(pages)) == "0" {
			n.AwaitStatus("p", "is held for huge pages", func(p v1.Pod) error {
				if p.Status.Reason != "OutOfhugepages-2Mi" ||
					!strings.Contains(p.Status.Message, "requested 4Mi, used 0, capacity 0") {
					return fmt.Errorf("%s: %s", p.Status.Reason, p.Status.Message)
				}
				return nil
			})
			return
		}
		main := n.AwaitRunning("p")
		at, err := harness.CgroupPath(main.Pid, "hugetlb")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{at, filepath.Dir(at)} {
			n.MustHaveValue("hugetlb", path, "hugetlb.2MB.limit_in_bytes", fmt.Sprint(4<<20))
		}
	})
}

// oomKilled returns nil if a container of the pod was OOM-killed and restarted.
func oomKilled(p v1.Pod) error {
	for _, c := range p.Status.ContainerStatuses {
		for _, end := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if end != nil && end.Reason == "OOMKilled" && c.RestartCount > 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("%+v", p.Status.ContainerStatuses)
}

// A container that exceeds its memory limit is killed, and its pod keeps running.
func TestOutOfMemory(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("memory") {
			return
		}
		eat := "sleep 0.2; tail /dev/zero"
		n.WriteManifest("p.yaml", harness.ScriptPod("p", "one", 1, eat)+
			harness.Resources("limits: {memory: 24Mi}, requests: {cpu: 10m}"))
		n.MustStart()
		n.AwaitStatus("p", "OOMKilled", oomKilled)
		p, err := n.Pod("p")
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(n.CgroupRoot(), "burstable", "pod"+string(p.UID))
		n.MustHaveValue("memory", at, "memory.limit_in_bytes", fmt.Sprint(24<<20))
	})
}

// Processes that remain in a pod's cgroup after its containers have terminated are killed.
func TestLeftoverProcessesAreKilled(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		main := n.AwaitRunning("p")
		controllers := slices.DeleteFunc([]string{"pids", "memory", "cpu"},
			func(c string) bool { return !harness.HasController(c) })
		if len(controllers) == 0 {
			t.Fatal("this host has no cgroup controllers")
		}
		at, err := harness.CgroupPath(main.Pid, controllers[0])
		if err != nil {
			t.Fatal(err)
		}
		p := n.AwaitReady("p")
		orphan := exec.Command("sleep", "100000")
		if err := orphan.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- orphan.Wait() }()
		t.Cleanup(func() { _ = orphan.Process.Kill() })
		dir, err := harness.ControllerPath(controllers[0], filepath.Dir(at))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(fmt.Sprint(orphan.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
		n.RemoveManifest("p.yaml")
		select {
		case <-ended:
		case <-time.After(3 * time.Minute):
			t.Error("the orphaned process keeps running")
		}
		n.Await("all cgroups are removed", func() error {
			if left := harness.PodCgroups(string(p.UID)); len(left) > 0 {
				return fmt.Errorf("%v", left)
			}
			return nil
		})
	})
}

// Where podstead cannot create cgroups, pods run in the runtime's cgroups, and pods that need
// their own cgroup are held. Once it can, running pods stay where they are and the held pods
// start.
func TestPodsWithoutCgroups(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("cpu", "memory") {
			return
		}
		product := n.Binary
		wrapper := filepath.Join(t.TempDir(), "podstead")
		script := fmt.Sprintf(`#!/bin/sh
exec unshare -m sh -c 'for m in /sys/fs/cgroup/*/; do mountpoint -q $m || continue; mount -o remount,ro,bind $m || exit; done; exec %s "$@"' podstead "$@"
`, product)
		if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		n.Binary = wrapper
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one")+harness.Resources("limits: {cpu: 200m, memory: 40Mi}"))
		n.MustStart()
		first := n.AwaitRunning("p")
		p := n.AwaitReady("p")
		if left := harness.PodCgroups(string(p.UID)); len(left) > 0 {
			t.Fatalf("there are cgroups of the pod: %v", left)
		}
		n.Binary = product
		n.Restart()
		n.AwaitReady("p")
		n.MustStillRun("p", first)
		// Its next container joins the others in the sandbox's parent cgroup.
		if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		second := n.AwaitOther("p", first)
		before, err := harness.CgroupPath(second.Pid, "memory")
		if err != nil || strings.Contains(before, n.CgroupRoot()) {
			t.Errorf("the new instance is in %s (%v), want the cgroup of its sandbox", before, err)
		}
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
		if harness.ProcessExists(second.Pid) {
			t.Error("the pod's process still runs")
		}
		n.Await("all cgroups are removed", func() error {
			if left := harness.PodCgroups(string(p.UID)); len(left) > 0 {
				return fmt.Errorf("%v", left)
			}
			return nil
		})
	})
}

// Two daemons with the same cgroup root would kill each other's pods as orphans.
func TestCgroupRootIsExclusive(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	n.MustStart()
	other := harness.NewNode(t, n.Runtime)
	other.Args = []string{"--cgroup-root", n.CgroupRoot()}
	out, err := other.Command(other.Flags()...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "--cgroup-root "+n.CgroupRoot()) {
		t.Errorf("%v: %s, want an error that names the root", err, out)
	}
	out, err = other.Command(other.Flags("--cgroup-root", "/kubepods/x")...).CombinedOutput()
	if !errors.As(err, &exit) || !strings.Contains(string(out), "kubelet") {
		t.Errorf("%v: %s, want an error that names the kubelet", err, out)
	}
}
