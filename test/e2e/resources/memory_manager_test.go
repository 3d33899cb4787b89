package resources

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podstead/podstead/test/e2e/harness"
)

// With the memory manager's policy Static the containers of a Guaranteed pod have memory of a NUMA
// node: the runtime was told so, the kernel holds them to it, and clients of the PodResources API see it.
// Other pods have none of their own. The assignment survives the daemon, is not resized, and keeps
// the policy from being changed.
func TestMemoryManager(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("cpuset") {
			return
		}
		nodes, err := os.ReadFile("/sys/devices/system/node/has_memory")
		if err != nil || strings.ContainsAny(strings.TrimSpace(string(nodes)), ",-") {
			t.Fatalf("this test needs one NUMA node: %s (%v)", nodes, err)
		}
		numa := strings.TrimSpace(string(nodes))
		before := n.Args
		// The test bed's eviction threshold is 100Mi.
		n.Args = append(n.Args, "--memory-manager-policy=Static", "--system-reserved=memory=200Mi",
			"--reserved-memory="+numa+":memory=300Mi")
		guaranteed := func(memory string) string {
			return harness.SleepPod("own", "one") + harness.Resources("limits: {cpu: 100m, memory: "+memory+"}")
		}
		n.WriteManifest("own.yaml", guaranteed("40Mi"))
		n.WriteManifest("shared.yaml", harness.SleepPod("shared", "one"))
		n.MustStart()
		own, shared := n.AwaitRunning("own"), n.AwaitRunning("shared")
		allowed := n.Exec(own, "grep", "Mems_allowed_list:", "/proc/self/status")
		if fields := strings.Fields(allowed); len(fields) != 2 || fields[1] != numa {
			t.Errorf("the container sees %q, want the NUMA node %s", allowed, numa)
		}
		path, err := harness.CgroupPath(own.Pid, "cpuset")
		if err != nil {
			t.Fatal(err)
		}
		n.MustHaveValue("cpuset", path, "cpuset.mems", numa)
		for _, c := range []struct {
			i    harness.Instance
			want string
		}{{own, numa}, {shared, ""}} {
			st, err := n.Runtime.CRI.Runtime.ContainerStatus(t.Context(),
				&runtimeapi.ContainerStatusRequest{ContainerId: c.i.ID})
			if err != nil {
				t.Fatal(err)
			}
			if got := st.GetStatus().GetResources().GetLinux().GetCpusetMems(); got != c.want {
				t.Errorf("the runtime has the NUMA nodes %q of container %s, want %q", got, c.i.ID, c.want)
			}
		}
		mustHaveMemory(n, "own", numa, 40<<20)
		s := n.Series("/metrics")
		if requests, errors := s.Value(t, "kubelet_memory_manager_pinning_requests_total"),
			s.Value(t, "kubelet_memory_manager_pinning_errors_total"); requests < 1 || errors != 0 {
			t.Errorf("%v requests, %v errors", requests, errors)
		}

		n.Kill()
		n.MustStart()
		n.AwaitReady("own")
		mustHaveMemory(n, "own", numa, 40<<20)
		n.WriteManifest("own.yaml", guaranteed("44Mi"))
		n.AwaitStatus("own", "the resize is infeasible", func(p v1.Pod) error {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodResizePending && c.Reason == v1.PodReasonInfeasible &&
					strings.Contains(c.Message, "memoryManagerPolicy Static") {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.Conditions)
		})
		n.WriteManifest("own.yaml", guaranteed("40Mi"))
		n.MustStillRun("own", own)

		// Another policy, or other reserved memory, stops the start; what runs goes on.
		n.Kill()
		static := n.Args
		for want, args := range map[string][]string{
			`the configured policy "None" differs from "Static" in the state file`: before,
			`the total amount "301Mi" of type "memory" is not equal to the value`: append(before[:len(before):len(before)],
				"--memory-manager-policy=Static", "--system-reserved=memory=200Mi", "--reserved-memory="+numa+":memory=301Mi"),
		} {
			n.Args = args
			if out, err := n.Command(n.Flags()...).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%v: %v: %s, want %q", args, err, out, want)
			}
		}
		n.Args = static
		n.MustStart()
		n.RemoveManifest("own.yaml")
		n.AwaitGone("own")
		n.Await("the memory is released", func() error {
			data, err := os.ReadFile(filepath.Join(n.Root, "memory_manager_state.json"))
			if err == nil && strings.Contains(string(data), n.PodName("own")) {
				err = fmt.Errorf("the state file is %s", data)
			}
			return err
		})
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		n.Args = before
		n.MustStart()
		n.MustStillRun("shared", shared)
	})
}

// mustHaveMemory checks the memory of a pod's only container in the PodResources API, and that it is
// part of what the NUMA node has for containers.
func mustHaveMemory(n *harness.Node, name, numa string, want uint64) {
	n.T.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(n.Root, "pod-resources", "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.T.Fatal(err)
	}
	defer conn.Close()
	client := podresources.NewPodResourcesListerClient(conn)
	got, err := client.Get(n.T.Context(),
		&podresources.GetPodResourcesRequest{PodName: n.PodName(name), PodNamespace: "default"})
	if err != nil {
		n.T.Fatal(err)
	}
	all, err := client.GetAllocatableResources(n.T.Context(), &podresources.AllocatableResourcesRequest{})
	if err != nil {
		n.T.Fatal(err)
	}
	memory := got.PodResources.Containers[0].Memory
	if len(memory) != 1 || memory[0].MemoryType != "memory" || memory[0].Size != want ||
		len(memory[0].Topology.Nodes) != 1 || fmt.Sprint(memory[0].Topology.Nodes[0].ID) != numa {
		n.T.Errorf("the memory of pod %s is %v, want %d of NUMA node %s", name, memory, want, numa)
	}
	if len(all.Memory) == 0 || all.Memory[0].Size < want {
		n.T.Errorf("allocatable memory is %v", all.Memory)
	}
}
