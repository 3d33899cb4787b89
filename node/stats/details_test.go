package stats

import (
	"fmt"
	"testing"
	"time"

	"github.com/podstead/podstead/internal/usage"
)

func TestDetails(t *testing.T) {
	m := newMachine(t)
	m.pod("web", "main", "many")
	m.cgroup("podstead/podweb", 0, 0, 0, 1)
	for name, pid := range map[string]string{"web-sandbox": "9", "web-main": "11", "web-many": "13"} {
		m.cgroup("podstead/podweb/"+name, time.Second, 1000, 0, 1)
		m.write("cgroup/podstead/podweb/"+name+"/cgroup.procs", pid+"\n")
	}
	m.write("cgroup/podstead/podweb/web-main/cgroup.procs", "11\n12\n") // 12 has just ended
	m.write("proc/11/limits", "Limit                     Soft Limit           Hard Limit           Units     \nMax open "+
		"files            1024                 524288               files     \n")
	m.write("proc/13/limits", "Max open files            unlimited            unlimited            files     \n")
	for fd, to := range map[string]string{"0": "/dev/null", "1": "pipe:[7]", "2": "socket:[8]"} {
		m.link("proc/11/fd/"+fd, to)
	}
	m.write("proc/self/mountinfo", fmt.Sprintf(`21 1 8:1 / %[1]s rw - ext4 /dev/sda1 rw
22 1 8:1 /x %[1]s/cgroup rw - ext4 /dev/sda1 rw
23 1 0:5 / /sys rw - sysfs sysfs rw
24 1 0:6 / /nfs rw - nfs4 server:/x rw
`, m.root))
	m.write("proc/diskstats", "   8       1 sda1 10 1 200 30 40 2 600 70 1 90 100 0 0 0 0 0 0\n")
	d, err := m.collector().Details(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if d.Node == nil || d.Node.Path != "/" || d.Pods == nil || d.Pods.Path != "/podstead" ||
		d.ByID["web"].Path != "/podstead/podweb" {
		t.Errorf("cgroups: %+v", d)
	}
	p := d.ByID["web-main"].Processes
	if p.Count != 2 || *p.FileDescriptors != 3 || *p.Sockets != 1 || *p.MaxOpenFiles != 1024 {
		t.Errorf("processes of main: %+v", p)
	}
	if p := d.ByID["web-many"].Processes; *p.MaxOpenFiles != -1 || *p.FileDescriptors != 0 {
		t.Errorf("processes of many: %+v", p)
	}
	if u := d.Sandboxes["web-sandbox"]; u.CPU == nil || u.CPU.Total != time.Second {
		t.Errorf("the sandbox: %+v", u)
	}
	if len(d.Devices) != 1 || d.Devices[0].Name != "/dev/sda1" || d.Devices[0].Capacity != 1000 {
		t.Fatalf("devices: %+v", d.Devices)
	}
	want := usage.DiskCounters{
		Reads: 10, ReadsMerged: 1, SectorsRead: 200, ReadTime: 30 * time.Millisecond, Writes: 40, WritesMerged: 2,
		SectorsWritten: 600,
		WriteTime:      70 * time.Millisecond, InProgress: 1, Time: 90 * time.Millisecond, Weighted: 100 * time.Millisecond,
	}
	if *d.Devices[0].IO != want {
		t.Errorf("%+v", *d.Devices[0].IO)
	}
}

func TestDescriptorsBeyondTheLimitAreNotCounted(t *testing.T) {
	m := newMachine(t)
	m.write("proc/7/fd/0", "")
	c := m.collector()
	descriptors, sockets := uint64(maxDescriptors), uint64(0)
	if c.countDescriptors(7, &descriptors, &sockets) {
		t.Errorf("counted %d", descriptors)
	}
}

func TestSystemContainers(t *testing.T) {
	m := newMachine(t)
	c := m.collector()
	pid := 50
	c.cfg.RuntimeProcess = func() int { return pid }
	m.write("proc/self/cgroup", "0::/system.slice/podstead.service\n")
	m.write("proc/50/cgroup", "0::/system.slice/containerd.service\n")
	m.write("proc/50/stat", "50 (a) b) S 1 1 1 0 -1 0 5 0 2 0 30 20 0 0 20 0 1 0 1 1 1\n")
	m.write("proc/50/statm", "100 50 10 0 0 0 0\n")
	m.cgroup("system.slice/containerd.service", 2*time.Second, 8192, 0, 3)
	n, err := c.Node(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if n.Runtime.CPU.Total != 2*time.Second || n.Runtime.Memory.Usage != 8192 {
		t.Errorf("the runtime's cgroup: %+v", n.Runtime)
	}
	misc := n.CPU.Total - n.Pods.CPU.Total - n.Daemon.CPU.Total - n.Runtime.CPU.Total
	if n.Misc.CPU.Total != max(misc, 0) || n.Misc.Memory.Usage > n.Memory.Usage-n.Runtime.Memory.Usage {
		t.Errorf("misc %+v of %+v", n.Misc.CPU, n.CPU)
	}
	// A cgroup that has more in it is not the runtime's.
	for _, shared := range []string{"/", "/system.slice/podstead.service", "/podstead"} {
		m.write("proc/50/cgroup", "0::"+shared+"\n")
		again, err := c.Node(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if cpu := again.Runtime.CPU; cpu.Total != 500*time.Millisecond || again.Runtime.Memory.PageFaults != 7 {
			t.Errorf("the process in %s: %+v, %+v", shared, cpu, again.Runtime.Memory)
		}
		if again.Misc.CPU.Total < n.Misc.CPU.Total {
			t.Errorf("misc decreased from %v to %v", n.Misc.CPU.Total, again.Misc.CPU.Total)
		}
	}
	pid = 0
	if again, err := c.Node(t.Context(), 0); err != nil || again.Runtime.CPU != nil || again.Runtime.Memory != nil {
		t.Errorf("an unknown runtime: %+v, %v", again.Runtime, err)
	}
}
