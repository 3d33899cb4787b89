package nodestatus

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestDescribe(t *testing.T) {
	in := Input{
		Name: "edge", Labels: map[string]string{"zone": "a"}, Since: time.Unix(1000, 5), ReadySince: time.Unix(2000, 5),
		Addresses: []string{"10.0.0.1", "fd00::1"}, Port: 10250, Version: "v1", Runtime: "containerd://2",
		Capacity: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
	}
	in.Host.Swap, in.Inventory.Images = 4096, []v1.ContainerImage{{Names: []string{"a"}}}
	n := Describe(in)
	if n.Status.NodeInfo.Swap == nil || *n.Status.NodeInfo.Swap.Capacity != 4096 || len(n.Status.Images) != 1 {
		t.Errorf("status %+v", n.Status)
	}
	in.Host.Swap = 0
	if s := Describe(in).Status.NodeInfo.Swap; s != nil {
		t.Errorf("swap %v", s)
	}
	if n.Labels["zone"] != "a" || n.Labels[v1.LabelHostname] != "edge" || n.Labels[v1.LabelOSStable] != "linux" {
		t.Errorf("labels %v", n.Labels)
	}
	if port := n.Status.DaemonEndpoints.KubeletEndpoint.Port; port != 10250 {
		t.Errorf("port %d", port)
	}
	if a := n.Status.Addresses; len(a) != 3 || a[0].Address != "10.0.0.1" || a[0].Type != v1.NodeInternalIP ||
		a[2].Type != v1.NodeHostName {
		t.Errorf("addresses %v", a)
	}
	if c := n.Status.Conditions[0]; c.Status != v1.ConditionTrue || c.LastTransitionTime.Unix() != 2000 {
		t.Errorf("condition %v", c)
	}
	in.NotReady = "the runtime is away"
	in.Pressures = []v1.NodeCondition{{Type: v1.NodeMemoryPressure, Status: v1.ConditionTrue}}
	if c := Describe(in).Status.Conditions; len(c) != 2 || c[0].Type != v1.NodeMemoryPressure {
		t.Errorf("conditions %v", c)
	}
	if c := Describe(in).Status.Conditions[1]; c.Status != v1.ConditionFalse || c.Message != "the runtime is away" ||
		c.Reason != reasonNotReady {
		t.Errorf("condition %v", c)
	}
}

func TestReadHost(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/sys/kernel/osrelease": "6.1\n", "etc/machine-id": "abc\n",
		"proc/meminfo":       "MemTotal: 9 kB\nSwapTotal:          2048 kB\n",
		"usr/lib/os-release": "ID=x\nPRETTY_NAME=\"X Linux 1\"\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := Host{OS: "X Linux 1", Kernel: "6.1", MachineID: "abc", Swap: 2 << 20}
	if got := ReadHost(root); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := ReadHost(t.TempDir()); got != (Host{OS: "Linux"}) {
		t.Errorf("of nothing: %+v", got)
	}
}
