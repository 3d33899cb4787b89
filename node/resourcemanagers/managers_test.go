package resourcemanagers

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/node/memory"
	"github.com/podstead/podstead/node/topology"
)

// host writes the files of a host with one NUMA node of four cores and 1 GiB, and returns their root.
func host(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	file := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file("proc/sys/kernel/random/boot_id", "boot-1")
	file("sys/devices/system/cpu/online", "0-3")
	for id := range 4 {
		file(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", id), fmt.Sprint(id))
		file(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/physical_package_id", id), "0")
	}
	file("sys/devices/system/node/node0/cpulist", "0-3")
	file("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 1048576 kB")
	return root
}

func config(t *testing.T, cpu, mem, policy string) Config {
	t.Helper()
	return Config{
		Host: host(t), State: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		CPUs:     CPUs{Policy: cpu, Set: cpus.NewSet(0)},
		Memory:   Memory{Policy: mem, Requested: func(error) {}},
		Topology: Topology{Policy: policy, Scope: topology.ScopeContainer},
	}
}

// guaranteed returns a pod with one container of two CPUs and 64 MiB.
func guaranteed() *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.UID = "web", "u1"
	has := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("64Mi")}
	pod.Spec.Containers = []v1.Container{{Name: "app",
		Resources: v1.ResourceRequirements{Requests: has, Limits: has}}}
	return pod
}

// A node has the managers that are configured; for the others everything is left to the kernel, and can be resized.
func TestOpen(t *testing.T) {
	for name, c := range map[string]struct {
		cpu, mem, policy string
		cpus, nodes      string
	}{
		"none":         {cpus.PolicyNone, memory.PolicyNone, topology.PolicyNone, "", ""},
		"CPUs":         {cpus.PolicyStatic, memory.PolicyNone, topology.PolicyNone, "1-2", ""},
		"memory":       {cpus.PolicyNone, memory.PolicyStatic, topology.PolicyNone, "", "0"},
		"topology":     {cpus.PolicyNone, memory.PolicyNone, topology.PolicyRestricted, "", ""},
		"all of these": {cpus.PolicyStatic, memory.PolicyStatic, topology.PolicySingleNUMANode, "1-2", "0"},
	} {
		m, err := Open(config(t, c.cpu, c.mem, c.policy))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if (m == nil) != (name == "none") {
			t.Fatalf("%s: %v", name, m)
		}
		if m == nil {
			continue
		}
		pod := guaranteed()
		if err := m.Assign(pod); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		list, exclusive := m.CPUs("u1", "app")
		if nodes := m.NUMANodes("u1", "app"); list != c.cpus || exclusive != (c.cpus != "") || nodes != c.nodes {
			t.Errorf("%s: CPUs %q (%v), nodes %q", name, list, exclusive, nodes)
		}
		m.Created("c1", list)
		if m.Fixed(pod, v1.ResourceCPU) != (c.cpus != "") || m.Fixed(pod, v1.ResourceMemory) != (c.nodes != "") ||
			m.Fixed(pod, v1.ResourcePods) {
			t.Errorf("%s: the wrong resources are fixed", name)
		}
	}
}

// A manager that is not configured any more must not have assigned something to a pod that runs.
func TestPolicyRemovedWhilePodsRun(t *testing.T) {
	cfg := config(t, cpus.PolicyStatic, memory.PolicyStatic, topology.PolicyNone)
	m, err := Open(cfg)
	if err == nil {
		err = m.Assign(guaranteed())
	}
	if err != nil {
		t.Fatal(err)
	}
	without := cfg
	without.CPUs.Policy = cpus.PolicyNone
	if _, err := Open(without); err == nil || !strings.Contains(err.Error(), "cpuManagerPolicy") {
		t.Errorf("without the CPU manager: %v", err)
	}
	without = cfg
	without.Memory.Policy = memory.PolicyNone
	if _, err := Open(without); err == nil || !strings.Contains(err.Error(), "memoryManagerPolicy") {
		t.Errorf("without the memory manager: %v", err)
	}
}

// fakeDevices are devices without NUMA nodes.
type fakeDevices struct {
	near func(uid types.UID, container string, nodes []int) bool
}

func (d *fakeDevices) SetAffinity(near func(uid types.UID, container string, nodes []int) bool) {
	d.near = near
}
func (*fakeDevices) Nodes(v1.ResourceName, ...types.UID) (all, free [][]int) { return nil, nil }
func (*fakeDevices) Requests(*v1.Pod) map[v1.ResourceName]int64              { return nil }
func (*fakeDevices) Await(types.UID)                                         {}
func (*fakeDevices) Holds(types.UID) bool                                    { return false }

// With a policy of the topology, devices near the CPUs of a container are preferred.
func TestAffinityOfDevices(t *testing.T) {
	cfg, has := config(t, cpus.PolicyStatic, memory.PolicyNone, topology.PolicyBestEffort), &fakeDevices{}
	cfg.Topology.Devices = has
	m, err := Open(cfg)
	if err == nil {
		err = m.Assign(guaranteed())
	}
	if err != nil {
		t.Fatal(err)
	}
	if has.near == nil || !has.near("u1", "app", []int{0}) || has.near("u1", "app", []int{1}) {
		t.Error("node 0 is not near the container, or node 1 is")
	}
	cfg, has = config(t, cpus.PolicyStatic, memory.PolicyNone, topology.PolicyNone), &fakeDevices{}
	cfg.Topology.Devices = has
	if _, err := Open(cfg); err != nil || has.near != nil {
		t.Errorf("without a policy: %v", err)
	}
}
