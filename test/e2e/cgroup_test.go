package e2e

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

	"github.com/podstead/podstead/test/testbed"
)

// cgroupPath returns the cgroup of a process in a controller's hierarchy.
func cgroupPath(pid int, controller string) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2], nil
		}
	}
	return "", fmt.Errorf("process %d is in no cgroup of %s: %s", pid, controller, data)
}

// cgroupValue reads a file of a cgroup.
func cgroupValue(controller, path, file string) (string, error) {
	dir, err := controllerPath(controller, path)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(filepath.Join(dir, file))
	return strings.TrimSpace(string(data)), err
}

// mustHaveValue fails the test unless a file of a cgroup has this content.
func (n *node) mustHaveValue(controller, path, file, want string) {
	n.t.Helper()
	if got, err := cgroupValue(controller, path, file); err != nil || got != want {
		n.t.Errorf("%s of %s is %q (%v), want %q", file, path, got, err, want)
	}
}

// podCgroups returns the remaining directories of a pod's cgroup in all hierarchies.
func podCgroups(uid string) []string {
	var found []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), uid) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// resources returns the resources of a container, to be appended to the manifest of sleepPod or scriptPod.
func resources(lists string) string { return "      resources: {" + lists + "}\n" }

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
	onEachRuntime(t, func(t *testing.T, n *node) {
		if !n.needs("cpu", "memory", "pids") {
			return
		}
		n.Args = []string{"--system-reserved", "memory=1Gi,cpu=100m", "--kube-reserved", "memory=512Mi", "--pod-max-pids", "200"}
		n.writeManifest("g.yaml", sleepPod("g", "one")+resources("limits: {cpu: 200m, memory: 40Mi}"))
		n.writeManifest("b.yaml", sleepPod("b", "one")+resources("requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 300m, memory: 32Mi}")+
			"    - {name: other, image: "+testbed.BusyboxImage+", command: [sh, -c, 'trap exit TERM; sleep 100000 & wait'], resources: {requests: {cpu: 50m}, limits: {cpu: 300m}}}\n")
		n.writeManifest("e.yaml", sleepPod("e", "one"))
		n.start()
		root := n.CgroupRoot()
		instances := map[string]instance{}
		uids := map[string]string{}
		for name, tier := range map[string]string{"g": "", "b": "burstable", "e": "besteffort"} {
			instances[name] = n.awaitRunning(name)
			p := n.awaitReady(name)
			uids[name] = string(p.UID)
			for _, controller := range []string{"cpu", "memory", "pids"} {
				at, err := cgroupPath(instances[name].Pid, controller)
				want := filepath.Join(root, tier, "pod"+uids[name])
				if err != nil || filepath.Dir(at) != want {
					t.Fatalf("%s: the container is in %s (%v), want it below %s", name, at, err, want)
				}
				uids[name+controller] = at
			}
		}
		n.awaitContainer("b", "other")
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
			n.mustHaveValue(c.controller, c.path, c.file, c.want)
		}
		// A runtime without CAP_SYS_RESOURCE cannot set a value below its own.
		least := max(oomScoreAdj(t, n.rt.Pid()), -997)
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
		n.restart()
		for name := range instances {
			n.awaitReady(name)
			n.mustStillRun(name, instances[name])
		}
		for name := range instances {
			n.removeManifest(name + ".yaml")
		}
		for name := range instances {
			n.awaitGone(name)
			n.await("all cgroups of "+name+" are removed", func() error {
				if left := podCgroups(uids[name]); len(left) > 0 {
					return fmt.Errorf("%v", left)
				}
				return nil
			})
		}
		n.await("the QoS class has the minimum CPU shares", func() error {
			if got, err := cgroupValue("cpu", filepath.Join(root, "burstable"), "cpu.shares"); err != nil || got != "2" {
				return fmt.Errorf("cpu.shares is %s (%v)", got, err)
			}
			return nil
		})
	})
}

// Pod-level resources apply to the pod's cgroup, and so does its overhead. The containers have
// no limits of their own.
func TestPodLevelResources(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		if !n.needs("cpu", "memory") {
			return
		}
		n.writeManifest("p.yaml", strings.Replace(sleepPod("p", "one"), "spec:\n",
			"spec:\n  resources: {requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 200m, memory: 64Mi}}\n"+
				"  overhead: {cpu: 50m, memory: 8Mi}\n", 1)+resources("requests: {ephemeral-storage: 1Mi}"))
		// Using more memory than the pod's limit kills a container without its own limit.
		n.writeManifest("o.yaml", strings.Replace(scriptPod("o", "one", 1, "sleep 0.2; tail /dev/zero"), "spec:\n",
			"spec:\n  resources: {limits: {memory: 24Mi}}\n", 1))
		n.start()
		main := n.awaitRunning("p")
		p := n.awaitReady("p")
		if p.Status.QOSClass != v1.PodQOSBurstable {
			t.Errorf("QoS class %s", p.Status.QOSClass)
		}
		pod := filepath.Join(n.CgroupRoot(), "burstable", "pod"+string(p.UID))
		n.mustHaveValue("cpu", pod, "cpu.shares", "153") // 150m
		n.mustHaveValue("cpu", pod, "cpu.cfs_quota_us", "25000")
		n.mustHaveValue("memory", pod, "memory.limit_in_bytes", fmt.Sprint(72<<20))
		at, err := cgroupPath(main.Pid, "memory")
		if err != nil || filepath.Dir(at) != pod {
			t.Fatalf("the container is in %s (%v), want it below %s", at, err, pod)
		}
		n.mustHaveValue("memory", at, "memory.limit_in_bytes", "9223372036854771712")
		n.awaitStatus("o", "OOMKilled", oomKilled)
	})
}

// A hugepages limit is set in the kernel. Without hugepages on the node, the pod is held.
func TestHugePages(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one")+resources("limits: {hugepages-2Mi: 4Mi, memory: 32Mi}"))
		n.writeManifest("fine.yaml", sleepPod("fine", "one"))
		n.start()
		n.awaitRunning("fine")
		pages, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
		if err != nil || strings.TrimSpace(string(pages)) == "0" {
			n.awaitStatus("p", "is held for huge pages", func(p v1.Pod) error {
				if p.Status.Reason != "OutOfhugepages-2Mi" || !strings.Contains(p.Status.Message, "requested 4Mi, used 0, capacity 0") {
					return fmt.Errorf("%s: %s", p.Status.Reason, p.Status.Message)
				}
				return nil
			})
			return
		}
		main := n.awaitRunning("p")
		at, err := cgroupPath(main.Pid, "hugetlb")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{at, filepath.Dir(at)} {
			n.mustHaveValue("hugetlb", path, "hugetlb.2MB.limit_in_bytes", fmt.Sprint(4<<20))
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
	onEachRuntime(t, func(t *testing.T, n *node) {
		if !n.needs("memory") {
			return
		}
		eat := "sleep 0.2; tail /dev/zero"
		n.writeManifest("p.yaml", scriptPod("p", "one", 1, eat)+resources("limits: {memory: 24Mi}, requests: {cpu: 10m}"))
		n.start()
		n.awaitStatus("p", "OOMKilled", oomKilled)
		p, err := n.pod("p")
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(n.CgroupRoot(), "burstable", "pod"+string(p.UID))
		n.mustHaveValue("memory", at, "memory.limit_in_bytes", fmt.Sprint(24<<20))
	})
}

// Processes that remain in a pod's cgroup after its containers have terminated are killed.
func TestLeftoverProcessesAreKilled(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		main := n.awaitRunning("p")
		controllers := slices.DeleteFunc([]string{"pids", "memory", "cpu"}, func(c string) bool { return !hasController(c) })
		if len(controllers) == 0 {
			t.Fatal("this host has no cgroup controllers")
		}
		at, err := cgroupPath(main.Pid, controllers[0])
		if err != nil {
			t.Fatal(err)
		}
		p := n.awaitReady("p")
		orphan := exec.Command("sleep", "100000")
		if err := orphan.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- orphan.Wait() }()
		t.Cleanup(func() { _ = orphan.Process.Kill() })
		dir, err := controllerPath(controllers[0], filepath.Dir(at))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(fmt.Sprint(orphan.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
		n.removeManifest("p.yaml")
		select {
		case <-ended:
		case <-time.After(3 * time.Minute):
			t.Error("the orphaned process keeps running")
		}
		n.await("all cgroups are removed", func() error {
			if left := podCgroups(string(p.UID)); len(left) > 0 {
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
	onEachRuntime(t, func(t *testing.T, n *node) {
		if !n.needs("cpu", "memory") {
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
		n.writeManifest("p.yaml", sleepPod("p", "one")+resources("limits: {cpu: 200m, memory: 40Mi}"))
		n.start()
		first := n.awaitRunning("p")
		p := n.awaitReady("p")
		if left := podCgroups(string(p.UID)); len(left) > 0 {
			t.Fatalf("there are cgroups of the pod: %v", left)
		}
		n.Binary = product
		n.restart()
		n.awaitReady("p")
		n.mustStillRun("p", first)
		// Its next container joins the others in the sandbox's parent cgroup.
		if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		second := n.awaitOther("p", first)
		before, err := cgroupPath(second.Pid, "memory")
		if err != nil || strings.Contains(before, n.CgroupRoot()) {
			t.Errorf("the new instance is in %s (%v), want the cgroup of its sandbox", before, err)
		}
		n.removeManifest("p.yaml")
		n.awaitGone("p")
		if processExists(second.Pid) {
			t.Error("the pod's process still runs")
		}
		n.await("all cgroups are removed", func() error {
			if left := podCgroups(string(p.UID)); len(left) > 0 {
				return fmt.Errorf("%v", left)
			}
			return nil
		})
	})
}

// Two daemons with the same cgroup root would kill each other's pods as orphans.
func TestCgroupRootIsExclusive(t *testing.T) {
	t.Parallel()
	n := newNode(t, sharedRuntime(t, testbed.Containerd24))
	n.start()
	other := newNode(t, n.rt)
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
