package supervisor

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	nodecpus "github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/node/memory"
	"github.com/podstead/podstead/node/resourcemanagers"
	"github.com/podstead/podstead/node/topology"
)

// numaRoot writes the sysfs of a machine with two NUMA nodes of two cores with two threads and 1 GiB each:
// node 0 has the CPUs 0, 1, 4 and 5, of which 0 and 4 are a core.
func numaRoot(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	file := func(path, text string) {
		path = filepath.Join(root, "sys/devices/system", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file("cpu/online", "0-7")
	for id := range 8 {
		core := id % 4
		file(fmt.Sprintf("cpu/cpu%d/topology/thread_siblings_list", id), fmt.Sprintf("%d,%d", core, core+4))
		file(fmt.Sprintf("cpu/cpu%d/topology/physical_package_id", id), fmt.Sprint(core/2))
	}
	for node := range 2 {
		file(fmt.Sprintf("node/node%d/cpulist", node), fmt.Sprintf("%d-%d,%d-%d", 2*node, 2*node+1, 2*node+4, 2*node+5))
		file(fmt.Sprintf("node/node%d/meminfo", node), fmt.Sprintf("Node %d MemTotal: %d kB", node, 1<<20))
	}
	return root
}

// newNUMAManagers opens the managers of the machine of numaRoot. CPU 0 is reserved.
func newNUMAManagers(t testing.TB, o nodecpus.Options, policy string) *resourcemanagers.Managers {
	t.Helper()
	m, err := resourcemanagers.Open(resourcemanagers.Config{
		Host: numaRoot(t), State: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		CPUs:     resourcemanagers.CPUs{Policy: nodecpus.PolicyStatic, Options: o, Set: nodecpus.NewSet(0)},
		Memory:   resourcemanagers.Memory{Policy: memory.PolicyStatic, Requested: func(error) {}},
		Topology: resourcemanagers.Topology{Policy: policy, Scope: topology.ScopeContainer},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// exclusivePod returns a Guaranteed pod with one container.
func exclusivePod(name string, uid types.UID, cpu, mem string) *v1.Pod {
	pod := testPod(name, uid, string(uid))
	has := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(mem)}
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: has, Limits: has}
	return pod
}

// An edit that asks for exclusive CPUs, memory of a NUMA node or an alignment that the node cannot give
// does not end what runs: it is held with the reason, and comes into effect when the node can.
func TestRevisionWithoutItsCPUsEndsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		options nodecpus.Options
		policy  string
		edit    *v1.Pod
		// other runs next to the pod; nil is none.
		other *v1.Pod
		held  string
		// possible reports whether the edit can start when the other pod has ended.
		possible bool
	}{
		"CPUs that are not free": {
			nodecpus.Options{}, topology.PolicyNone, exclusivePod("web", "u2", "6", "64Mi"),
			exclusivePod("other", "o1", "2", "64Mi"),
			"requests 6 exclusive CPUs, available 5", true,
		},
		"more CPUs than there are": {
			nodecpus.Options{}, topology.PolicyNone, exclusivePod("web", "u2", "8", "64Mi"), nil,
			"this node has 7 that are not reserved", false,
		},
		"half a core": {
			nodecpus.Options{FullPhysicalCPUs: true}, topology.PolicyNone, exclusivePod("web", "u2", "3", "64Mi"), nil,
			"request a multiple of 2", false,
		},
		"CPUs of one NUMA node": {
			nodecpus.Options{}, topology.PolicySingleNUMANode, exclusivePod("web", "u2", "5", "64Mi"), nil,
			"topologyManagerPolicy single-numa-node", false,
		},
		"an alignment": {
			nodecpus.Options{}, topology.PolicyRestricted, exclusivePod("web", "u2", "4", "64Mi"),
			exclusivePod("other", "o1", "2", "64Mi"),
			"topologyManagerPolicy restricted", true,
		},
		"memory of a NUMA node": {
			nodecpus.Options{}, topology.PolicyNone, exclusivePod("web", "u2", "2", "1500Mi"),
			exclusivePod("other", "o1", "2", "900Mi"),
			"requests 1500Mi of memory", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				managers := newNUMAManagers(t, c.options, c.policy)
				b.exclusive = managers
				first := exclusivePod("web", "u1", "2", "64Mi")
				d, pods := b.start(), []*v1.Pod{first}
				d.config.deliver(file, pods...)
				b.runs("u1")
				if c.other != nil {
					pods = append(pods, c.other)
					d.config.deliver(file, pods...)
					b.runs(c.other.UID)
				}
				had := managers.CPU.Assigned("u1", "app")
				pods[0] = c.edit
				d.config.deliver(file, pods...)
				b.awaitHeld("u1", c.held)
				b.after(time.Hour)
				if b.running("u1") != 1 || b.fake.Starts("u1", "app") != 1 {
					t.Errorf("%d run, it was started %d times", b.running("u1"), b.fake.Starts("u1", "app"))
				}
				if got := managers.CPU.Assigned("u1", "app"); got.String() != had.String() || len(got) != 2 {
					t.Errorf("the running pod has the CPUs %s, and had %s", got, had)
				}
				if got := managers.CPU.Assigned("u2", "app"); len(got) != 0 {
					t.Errorf("the revision that is not in effect has the CPUs %s", got)
				}
				if !c.possible {
					return
				}
				d.config.deliver(file, c.edit)
				if took := b.runs("u2"); took > time.Minute {
					t.Errorf("it came into effect %s after that was possible", took)
				}
				b.gone("u1")
			})
		})
	}
}

// The CPUs of the pod that is replaced count as free: an edit that fits only into them comes into effect.
func TestRevisionTakesTheCPUsOfItsPredecessor(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		managers := newNUMAManagers(t, nodecpus.Options{}, topology.PolicySingleNUMANode)
		b.exclusive = managers
		d := b.start()
		d.config.deliver(file, exclusivePod("web", "u1", "4", "600Mi"))
		b.runs("u1")
		d.config.deliver(file, exclusivePod("web", "u2", "4", "900Mi"))
		b.runs("u2")
		b.gone("u1")
		if got := managers.CPU.Assigned("u2", "app"); got.String() != "2-3,6-7" {
			t.Errorf("it has the CPUs %s", got)
		}
		// The container was created with them.
		c, _ := b.fake.Newest("app")
		if has := c.Config.Linux.Resources; has.CpusetCpus != "2-3,6-7" || has.CpusetMems != "1" || has.CpuQuota != 0 {
			t.Errorf("its container has %v", has)
		}
	})
}

// Of two edits that do not fit together one comes into effect; the other one ends nothing.
func TestRevisionsWhoseCPUsDoNotFitTogether(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.exclusive = newNUMAManagers(t, nodecpus.Options{}, topology.PolicyNone)
		d := b.start()
		d.config.deliver(file, exclusivePod("a", "a1", "2", "64Mi"), exclusivePod("b", "b1", "2", "64Mi"))
		b.runs("a1")
		b.runs("b1")
		d.config.deliver(file, exclusivePod("a", "a2", "4", "64Mi"), exclusivePod("b", "b2", "4", "64Mi"))
		b.until(time.Minute, "one comes into effect", func() bool { return b.running("a2")+b.running("b2") == 1 })
		b.after(time.Hour)
		if n := b.running("a1") + b.running("b1"); n != 1 || b.running("a2")+b.running("b2") != 1 {
			t.Errorf("%d of the first revisions run", n)
		}
		if held := d.status("a1").Message + d.status("b1").Message; !strings.Contains(held, "exclusive CPUs") {
			t.Logf("%q", held)
		}
	})
}
