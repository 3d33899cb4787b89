package cgroup

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/cgroupvalues"
)

// With TieredReservation the memory that Guaranteed pods request is protected for certain, that of
// Burstable pods as long as possible; their parents have the sums, and lose them when pods end.
func TestReservedMemory(t *testing.T) {
	files := filesV2[controllerMemory]
	files["memory.min"], files["memory.low"] = "0", "0"
	t.Cleanup(func() { delete(files, "memory.min"); delete(files, "memory.low") })
	m := newMachine(t, true, limitingControllers...)
	c := m.cgroups(func(o *Options) {
		o.Settings.MemoryQoS = &cgroupvalues.MemoryQoS{ThrottlingFactor: 0.9, Reserve: true}
	})
	must := func(path, file, want string) {
		t.Helper()
		if got := m.value(controllerMemory, path, file); got != want {
			t.Errorf("%s of %s is %q, want %q", file, path, got, want)
		}
	}
	for range 2 {
		for _, p := range []*v1.Pod{pod("g", [2]string{"1 1Mi", "1 1Mi"}), pod("b", [2]string{"- 2Mi", ""}),
			pod("e", [2]string{"", ""})} {
			if _, err := c.Ensure(t.Context(), p, ""); err != nil {
				t.Fatal(err)
			}
		}
		must("/podstead", "memory.min", "3145728")
		must("/podstead/podg", "memory.min", "1048576")
		must("/podstead/burstable", "memory.low", "2097152")
		must("/podstead/burstable/podb", "memory.low", "2097152")
		must("/podstead/burstable/podb", "memory.min", "0")
		must("/podstead/besteffort/pode", "memory.low", "0")
		if guaranteed, burstable := c.Protected(); guaranteed != 1<<20 || burstable != 2<<20 {
			t.Errorf("protected are %d and %d", guaranteed, burstable)
		}
	}
	for uid, min := range map[typesUID]string{"b": "1048576", "g": "2097152"} {
		if err := c.Destroy(t.Context(), uid, ""); err != nil {
			t.Fatal(err)
		}
		if len(c.reserved.guaranteed)+len(c.reserved.burstable) == 1 {
			must("/podstead", "memory.min", min)
		}
	}
	must("/podstead", "memory.min", "0")
	must("/podstead/burstable", "memory.low", "0")
	if guaranteed, burstable := c.Protected(); guaranteed != 0 || burstable != 0 {
		t.Errorf("without pods protected are %d and %d", guaranteed, burstable)
	}
}

// Without the setting a daemon removes the protection that an earlier one has left: of the root, of
// the tier, and of the pods that run.
func TestReservationEnds(t *testing.T) {
	files := filesV2[controllerMemory]
	files["memory.min"], files["memory.low"] = "0", "0"
	t.Cleanup(func() { delete(files, "memory.min"); delete(files, "memory.low") })
	m := newMachine(t, true, limitingControllers...)
	pods := []*v1.Pod{pod("g", [2]string{"1 1Mi", "1 1Mi"}), pod("b", [2]string{"- 2Mi", ""})}
	places := map[string]string{"/podstead": "memory.min", "/podstead/podg": "memory.min",
		"/podstead/burstable": "memory.low", "/podstead/burstable/podb": "memory.low"}
	for _, reserve := range []bool{true, false} {
		c := m.cgroups(func(o *Options) {
			o.Settings.MemoryQoS = &cgroupvalues.MemoryQoS{ThrottlingFactor: 0.9, Reserve: reserve}
		})
		for _, p := range pods {
			if _, err := c.Ensure(t.Context(), p, ""); err != nil {
				t.Fatal(err)
			}
		}
		for path, file := range places {
			if got := m.value(controllerMemory, path, file); (got == "0") == reserve {
				t.Errorf("reserved %v: %s of %s is %q", reserve, file, path, got)
			}
		}
	}
}
