package resources

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A cgroup of the host is limited to what is reserved for it, and limited again if its values are
// reset. A cgroup that does not exist stops the start.
func TestReservedCgroups(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	if !n.Needs("cpu", "memory", "pids") {
		return
	}
	group := fmt.Sprintf("/reserved-%d", os.Getpid())
	n.Args = append(n.Args, "--enforce-node-allocatable=pods,kube-reserved", "--kube-reserved-cgroup="+group,
		"--kube-reserved=cpu=500m,memory=256Mi,pid=300")
	if out, err := n.Command(n.Flags()...).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "--kube-reserved-cgroup: "+group+" cannot be limited on this node: there is no") {
		t.Fatalf("a cgroup that does not exist: %v: %s", err, out)
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		dir, err := harness.ControllerPath(controller, group)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
	}
	n.MustStart()
	for _, v := range []struct{ controller, file, want string }{
		{"cpu", "cpu.shares", "512"}, {"memory", "memory.limit_in_bytes", "268435456"}, {"pids", "pids.max", "300"},
	} {
		n.Await(v.file+" is set", func() error {
			got, err := harness.CgroupValue(v.controller, group, v.file)
			if err == nil && got != v.want {
				err = fmt.Errorf("%s is %s, want %s", v.file, got, v.want)
			}
			return err
		})
	}
}
