package stats

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/node/cgroup"
)

func TestNode(t *testing.T) {
	m := newMachine(t)
	m.write("root/x", "")
	m.write("images/x", "")
	m.rt.images = []usage.RuntimeFilesystem{{Mount: m.path("nowhere")}, {Mount: m.path("images"), Used: 77, Inodes: 7}}
	c := m.collector()
	n, err := c.Node(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if n.Memory.Limit != 1000<<10 || n.WorkingSet() != 600<<10 || n.MemoryAvailable != 400<<10 ||
		n.Memory.RSS != 250<<10 || n.Memory.Swap != 30<<10 {
		t.Errorf("memory %+v, %d available", n.Memory, n.MemoryAvailable)
	}
	if n.CPU.Total != 1630*time.Millisecond {
		t.Errorf("cpu %v", n.CPU.Total)
	}
	if *n.Processes != 80 || n.MaxProcesses != 1000 || n.BootedAt.Unix() != 1700000000 {
		t.Errorf("processes %d of %d, booted at %v", *n.Processes, n.MaxProcesses, n.BootedAt)
	}
	if n.Pods.WorkingSet() != 3072 || n.Pods.CPU.Total != 3*time.Second || *n.Pods.Processes != 9 {
		t.Errorf("pods %+v", n.Pods)
	}
	if n.FS.Available != 400 || n.FS.Used != 600 || n.ImageFS.Available != 400 || n.ImageFS.Used != 77 ||
		n.ImageFS.InodesUsed != 7 || n.ContainerFS == nil {
		t.Errorf("file systems %+v %+v", n.FS, n.ImageFS)
	}
	if d := cmp.Diff([]usage.Interface{{Name: "eth0", RxBytes: 5, RxPackets: 2, RxErrors: 3, RxDropped: 4, TxBytes: 10,
		TxPackets: 6, TxErrors: 7, TxDropped: 8}}, n.Interfaces); d != "" {
		t.Error(d)
	}
	// The runtime is away: what it said last is better than nothing.
	m.rt.fault = errUnavailable
	if n, err := c.Node(t.Context(), 0); err != nil || n.ImageFS == nil {
		t.Errorf("%+v, %v", n, err)
	}
}

// A node in a slice of the machine is as big as that.
func TestNodeInASlice(t *testing.T) {
	m := newMachine(t)
	m.cgroup("slice", time.Second, 70<<10, 20<<10, 1)
	c := m.collector()
	limit := int64(500 << 10)
	c.cfg.Ceiling = func() (cgroup.MemoryCgroup, int64) {
		return cgroup.MemoryCgroup{Directory: m.path("cgroup/slice"), V2: true}, limit
	}
	n, err := c.Node(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if n.Memory.Limit != 500<<10 || n.WorkingSet() != 50<<10 || n.MemoryAvailable != 450<<10 {
		t.Errorf("memory %+v, %d available", n.Memory, n.MemoryAvailable)
	}
	limit = 0 // none
	if n, err := c.Node(t.Context(), 0); err != nil || n.Memory.Limit != 1000<<10 {
		t.Errorf("without a bound %+v, %v", n.Memory, err)
	}
}

func TestTraffic(t *testing.T) {
	m := newMachine(t)
	for _, uid := range []string{"own", "host", "vm"} {
		m.pod(uid, "x")
	}
	for uid, pid := range map[string]string{"own": "11", "host": "12"} {
		sandbox := "podstead/pod" + uid + "/" + uid + "-sandbox"
		m.cgroup(sandbox, 0, 0, 0, 1)
		m.write("cgroup/"+sandbox+"/cgroup.procs", pid+"\n99\n")
		m.write("proc/"+pid+"/net/dev", netDev("eth0", 40))
	}
	m.link("proc/11/ns/net", "net:[11]")
	m.link("proc/12/ns/net", "net:[1]")
	m.rt.sandboxes = []usage.RuntimeSandbox{{ID: "vm-sandbox", Interfaces: []usage.Interface{{Name: "eth0", RxBytes: 3}}}}
	all, err := m.collector().Traffic(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all["own"][0].RxBytes != 40 || all["own"][0].TxBytes != 80 || all["vm"][0].RxBytes != 3 {
		t.Errorf("%+v", all)
	}
}
