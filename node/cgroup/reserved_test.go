package cgroup

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A cgroup of the system gets what is reserved for it, and gets it again if others reset it. What
// is in use is not taken away; it is tried again.
func TestEnforceReserved(t *testing.T) {
	eachVersion(t, func(t *testing.T, m *machine, v2 bool) {
		c := m.cgroups()
		list := []ReservedCgroup{
			{Field: "--system-reserved-cgroup", Path: "/sys", Resources: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("1Gi"),
				ResourcePID: resource.MustParse("100"),
			}},
			{Path: "/cpu", Resources: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"),
				v1.ResourceMemory: resource.MustParse("1Gi")}, Compressible: true},
		}
		for _, path := range []string{"/sys", "/cpu"} {
			if err := m.h.create(path); err != nil {
				t.Fatal(err)
			}
		}
		weight, memory, none := "cpu.shares", "memory.limit_in_bytes", "9223372036854771712"
		values := map[string]string{"/sys": "512", "/cpu": "1024"}
		if v2 {
			weight, memory, none = "cpu.weight", "memory.max", "max"
			values = map[string]string{"/sys": "20", "/cpu": "39"}
		}
		must := func(controller, path, file, want string) {
			t.Helper()
			if got := m.value(controller, path, file); got != want {
				t.Errorf("%s of %s is %q, want %q", file, path, got, want)
			}
		}
		usage, stat := usageFiles[v2].usage, m.h.directory(controllerMemory, "/sys")
		writeFiles(t, stat, map[string]string{usage: "2147483648"})
		synctest.Test(t, func(t *testing.T) {
			go func() { _ = c.EnforceReserved(t.Context(), list) }()
			synctest.Wait()
			must(controllerCPU, "/sys", weight, values["/sys"])
			must(controllerPids, "/sys", "pids.max", "100")
			must(controllerMemory, "/sys", memory, none) // more is in use
			must(controllerCPU, "/cpu", weight, values["/cpu"])
			must(controllerMemory, "/cpu", memory, none)
			must(controllerPids, "/cpu", "pids.max", "max")
			writeFiles(t, stat, map[string]string{usage: "1048576"})
			writeFiles(t, m.h.directory(controllerPids, "/sys"), map[string]string{"pids.max": "max"})
			time.Sleep(reservedInterval + time.Second)
			must(controllerMemory, "/sys", memory, "1073741824")
			must(controllerPids, "/sys", "pids.max", "100")
		})
	})
}

// With memory QoS the memory of the system is protected from reclaim, as at the kubelet. A nested
// slice is found by its name.
func TestReservedValues(t *testing.T) {
	r := ReservedCgroup{Resources: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi"),
		"hugepages-2Mi": resource.MustParse("4Mi")}}
	l := r.limits(true)
	if l.memoryMin != 1<<30 || l.memory != 1<<30 || l.hugePages["2MB"] != 4<<20 || l.shares != 0 {
		t.Errorf("%+v", l)
	}
	for name, want := range map[string]string{"/system.slice": "/system.slice", "/a-b.slice": "/a.slice/a-b.slice",
		"/a.slice/b.service": "/a.slice/b.service", "/x/": "/x"} {
		if got := (&ReservedCgroup{Path: name}).path(); got != want {
			t.Errorf("the path of %s is %s, want %s", name, got, want)
		}
	}
}

// systemd knows the values of a slice that it owns.
func TestReservedSlice(t *testing.T) {
	m := newMachine(t, true, limitingControllers...)
	c, units := systemdOn(m)
	units.units["system.slice"] = map[string]any{}
	if err := m.h.create("/system.slice"); err != nil {
		t.Fatal(err)
	}
	list := []ReservedCgroup{{Path: "/system.slice",
		Resources: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}}}
	for range 2 {
		if err := c.enforceReserved(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	if got := units.units["system.slice"]; len(got) != 1 || got["MemoryMax"] != uint64(1<<30) || units.started > 0 {
		t.Errorf("properties of the slice: %v", got)
	}
}
