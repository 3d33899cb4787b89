package cgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeUnits simulates systemd: it creates and removes the directory of each
// slice, and keeps the slices' properties.
type fakeUnits struct {
	m       *machine
	units   map[string]map[string]any
	started int
	fault   error
}

func (f *fakeUnits) Start(_ context.Context, unit string, properties []property) error {
	if f.fault != nil {
		return f.fault
	}
	if f.units[unit] != nil {
		return errUnitExists
	}
	f.started++
	f.units[unit] = map[string]any{}
	return f.Set(context.Background(), unit, properties)
}

func (f *fakeUnits) Set(_ context.Context, unit string, properties []property) error {
	if f.units[unit] == nil {
		return fmt.Errorf("no unit %s", unit)
	}
	for _, p := range properties {
		f.units[unit][p.name] = p.value
	}
	return nil
}

func (f *fakeUnits) Stop(_ context.Context, unit string) error {
	delete(f.units, unit)
	return nil
}

func systemdOn(m *machine) (*Cgroups, *fakeUnits) {
	f := &fakeUnits{m: m, units: map[string]map[string]any{}}
	return m.cgroups(func(o *Options) {
		o.Driver = func(context.Context) (Driver, error) { return Systemd, nil }
		o.units = f
		o.PodPids = 50
	}), f
}

// With systemd each cgroup is a slice whose properties match the kernel's
// values, and the runtime gets the slice's name.
func TestSlices(t *testing.T) {
	eachVersion(t, func(t *testing.T, m *machine, v2 bool) {
		c, systemd := systemdOn(m)
		const unit = "podstead-burstable-poda_b.slice"
		p := pod("a-b", [2]string{"500m 256Mi", "333m 1Gi"})
		for range 2 {
			if got, err := c.Ensure(t.Context(), p, ""); err != nil || got != unit {
				t.Fatalf("parent %q, %v", got, err)
			}
		}
		if systemd.started != 4 {
			t.Errorf("%d slices were started, want the root's, two tiers' and the pod's", systemd.started)
		}
		const path = "/podstead.slice/podstead-burstable.slice/" + unit
		want := map[string]any{"CPUShares": uint64(512), "CPUQuotaPerSecUSec": uint64(340000), "MemoryLimit": uint64(1 << 30),
			"TasksMax": uint64(50)}
		file, text := "memory.limit_in_bytes", "1073741824"
		if v2 {
			want = map[string]any{"CPUWeight": uint64(20), "CPUQuotaPerSecUSec": uint64(340000), "MemoryMax": uint64(1 << 30),
				"TasksMax": uint64(50)}
			file = "memory.max"
		}
		for name, value := range want {
			if got := systemd.units[unit][name]; got != value {
				t.Errorf("%s is %v, want %v", name, got, value)
			}
		}
		if got := m.value("memory", path, file); got != text {
			t.Errorf("%s is %q, want %s", file, got, text)
		}
		p.Spec.Containers[0].Resources = requirements("500m 256Mi", "- 2Gi")
		if _, err := c.Ensure(t.Context(), p, unit); err != nil {
			t.Fatal(err)
		}
		if got := systemd.units[unit]["CPUQuotaPerSecUSec"]; got != uint64(math.MaxUint64) {
			t.Errorf("after a limit was removed CPUQuotaPerSecUSec is %v", got)
		}
		if got := c.Pods(); !slices.Equal(got, []typesUID{"a-b"}) {
			t.Errorf("pods: %v", got)
		}
		if err := c.Destroy(t.Context(), "a-b", unit); err != nil {
			t.Fatal(err)
		}
		if systemd.units[unit] != nil || len(m.left("poda-b")) > 0 {
			t.Errorf("remaining: %v, %v", systemd.units[unit], m.left("poda-b"))
		}
	})
}

// A pod in a slice that another daemon created has its values updated, in the
// slice as well.
func TestSliceThatIsThere(t *testing.T) {
	m := newMachine(t, false, limitingControllers...)
	c, systemd := systemdOn(m)
	p := pod("a", [2]string{"1 1Gi", "1 1Gi"})
	if _, err := c.Ensure(t.Context(), p, ""); err != nil {
		t.Fatal(err)
	}
	again := m.cgroups(func(o *Options) { *o = c.Options; o.PodPids = 70 })
	if _, err := again.Ensure(t.Context(), p, "podstead-poda.slice"); err != nil {
		t.Fatal(err)
	}
	if got := systemd.units["podstead-poda.slice"]["TasksMax"]; got != uint64(70) {
		t.Errorf("TasksMax is %v", got)
	}
	if got := m.value("pids", "/podstead.slice/podstead-poda.slice", "pids.max"); got != "70" {
		t.Errorf("pids.max is %s", got)
	}
}

// Without D-Bus cgroups are left to the runtime; any other error holds the
// pods.
func TestSystemdThatDoesNotAnswer(t *testing.T) {
	m := newMachine(t, false, limitingControllers...)
	c, systemd := systemdOn(m)
	c.PodPids = 0
	systemd.fault = errors.New("job failed")
	if _, err := c.Ensure(t.Context(), pod("a", [2]string{"", ""}), ""); err == nil ||
		!strings.Contains(err.Error(), "podstead.slice: job failed") {
		t.Errorf("a job that fails: %v", err)
	}
	systemd.fault = &unavailableError{errors.New("no bus")}
	if got, err := c.Ensure(t.Context(), pod("a", [2]string{"", ""}), ""); err != nil || got != "" {
		t.Errorf("without a bus: %q, %v", got, err)
	}
	if left, _ := filepath.Glob(filepath.Join(m.root, "*", "podstead*")); len(left) > 0 {
		t.Errorf("created nevertheless: %v", left)
	}
}
