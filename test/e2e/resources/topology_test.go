package resources

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
	"github.com/podstead/podstead/test/testbed/deviceplugin"
)

// With a topology manager policy a pod whose CPU and device are not on the same NUMA node waits with
// TopologyAffinityError, and starts when there is a device on the node of its CPU.
func TestTopologyManager(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	if !n.Needs("cpu", "cpuset") {
		return
	}
	n.Args = append(n.Args, "--cpu-manager-policy=static", "--reserved-cpus=0",
		"--topology-manager-policy=single-numa-node", "--topology-manager-scope=pod")
	n.MustStart()
	plugin := func(node int64) *deviceplugin.Plugin {
		p, err := deviceplugin.Start(deviceplugin.Options{Dir: filepath.Join(n.Root, "device-plugins"),
			Resource: "example.com/near", Devices: []string{"a"}, Nodes: map[string]int64{"a": node}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		return p
	}
	far := plugin(62) // no machine has it
	n.WriteManifest("own.yaml", harness.SleepPod("own", "one")+
		harness.Resources("limits: {cpu: 1, memory: 40Mi, example.com/near: 1}"))
	n.WriteManifest("free.yaml", harness.SleepPod("free", "one"))
	n.AwaitRunning("free")
	n.AwaitStatus("own", "waits for its topology", func(p v1.Pod) error {
		if p.Status.Phase == v1.PodPending && p.Status.Reason == "TopologyAffinityError" &&
			strings.Contains(p.Status.Message,
				"cpu, example.com/near of the pod together, as topologyManagerPolicy single-numa-node requires") {
			return nil
		}
		return fmt.Errorf("%s %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
	})
	far.Stop()
	plugin(0)
	own := n.AwaitRunning("own")
	process, group, err := harness.AllowedCPUs(own.Pid)
	if err != nil || process == "0" || process != group || strings.ContainsAny(process, ",-") {
		t.Errorf("the kernel has CPUs %s, the cgroup %s (%v), want one that is not reserved", process, group, err)
	}
}
