package resources

import (
	"fmt"
	"testing"

	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// Commands report a resize that is not possible, or waits, and rollout status is no success until the pod has its
// resources, however soon after the change it is called.
func TestStatusOfAResize(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		cpu := func(name string, milli int64) string {
			return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: %s, command: [sleep, "100000"], resources: {requests: {cpu: %dm}}}]
`, name, testbed.BusyboxImage, milli)
		}
		capacity := cgroup.Capacity()
		all := capacity.Cpu().MilliValue()
		n.WriteManifest("p.yaml", cpu("p", 100))
		n.WriteManifest("hog.yaml", cpu("hog", all-300))
		n.MustStart()
		p := n.AwaitRunning("p")
		n.AwaitReady("hog")
		n.CLI(0, []string{"successfully rolled out"}, "rollout", "status", "p")

		n.WriteManifest("p.yaml", cpu("p", all+1000))
		infeasible := fmt.Sprintf("its resize is Infeasible: the pod requests %dm of cpu, but only", all+1000)
		n.CLI(1, []string{infeasible}, "rollout", "status", "p")
		n.CLI(1, []string{infeasible}, "rollout", "status", "p", "--watch=false")
		n.CLI(1, []string{infeasible}, "wait", "p", "--for=revision")
		n.CLI(0, []string{"p: " + infeasible}, "get", "pods")
		n.CLI(0, []string{"p: " + infeasible}, "status")

		n.WriteManifest("p.yaml", cpu("p", 500))
		const deferred = "its resize is Deferred: not enough cpu: requested 400m more"
		n.CLI(124, []string{deferred}, "rollout", "status", "p", "--timeout", "5s")
		n.CLI(0, []string{"p: " + deferred}, "get", "pods")
		n.CLI(0, []string{"p: " + deferred}, "status")
		n.RemoveManifest("hog.yaml")
		n.CLI(0, []string{"successfully rolled out"}, "rollout", "status", "p")
		n.WriteManifest("p.yaml", cpu("p", 200))
		n.CLI(0, []string{"successfully rolled out"}, "rollout", "status", "p")
		n.MustStillRun("p", p)
	})
}
