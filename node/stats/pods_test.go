package stats

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/internal/usage"
)

func TestPodsFromCgroups(t *testing.T) {
	m := newMachine(t)
	m.pod("a", "x", "y").Containers[1].Running = false
	m.cgroup("podstead/poda", 2*time.Second, 1000, 300, 5)
	m.cgroup("podstead/poda/a-x", time.Second, 600, 200, 4)
	dead := m.pod("b", "x")
	dead.SandboxReady, dead.Containers[0].Running = false, false
	pods, err := m.collector().Pods(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Pods) != 1 || pods.Missing != 0 || pods.Get("b") != nil {
		t.Fatalf("pods %+v", pods)
	}
	a := pods.Get("a")
	if a.CPU.Total != 2*time.Second || a.WorkingSet() != 700 || *a.Processes != 5 {
		t.Errorf("pod: %+v", a.Usage)
	}
	if len(a.Containers) != 1 || a.Containers[0].CPU.Total != time.Second || a.Containers[0].WorkingSet() != 400 ||
		*a.Containers[0].Processes != 4 {
		t.Errorf("containers: %+v", a.Containers)
	}
	if m.rt.calls != 0 {
		t.Errorf("%d calls of the runtime for what the cgroups show", m.rt.calls)
	}
}

// The runtime reports pods that are not on this kernel, such as virtual machines.
func TestPodsFromTheRuntime(t *testing.T) {
	m := newMachine(t)
	m.pod("a", "x")
	m.cgroup("podstead/poda", 2*time.Second, 1000, 300, 5)
	m.cgroup("podstead/poda/a-x", time.Second, 600, 200, 4)
	m.pod("vm", "x")
	one := uint64(3)
	m.rt.containers = []usage.RuntimeContainer{{
		ID: "vm-x", Usage: usage.Usage{CPU: &usage.CPU{Total: 7 * time.Second},
			Memory: &usage.Memory{Usage: 90, InactiveFile: 10}},
	}}
	m.rt.sandboxes = []usage.RuntimeSandbox{{
		ID: "vm-sandbox", Usage: usage.Usage{CPU: &usage.CPU{Total: 8 * time.Second},
			Memory: &usage.Memory{Usage: 95, InactiveFile: 10}, Processes: &one},
	}}
	pods, err := m.collector().Pods(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if vm := pods.Get("vm"); vm.CPU.Total != 8*time.Second || vm.WorkingSet() != 85 || *vm.Processes != 3 ||
		vm.Containers[0].CPU.Total != 7*time.Second || vm.Containers[0].WorkingSet() != 80 {
		t.Errorf("%+v", vm)
	}
	if a := pods.Get("a"); a.WorkingSet() != 700 || a.Containers[0].WorkingSet() != 400 {
		t.Errorf("the other pod: %+v", a)
	}
	if m.rt.calls != 2 {
		t.Errorf("%d calls, want one for all containers and one for all sandboxes", m.rt.calls)
	}
}

// A pod without a cgroup of its own is the sum of its containers.
func TestPodWithoutItsOwnCgroup(t *testing.T) {
	m := newMachine(t)
	m.pod("a", "x", "y").CgroupParent = ""
	m.cgroup("k8s.io/a-x", time.Second, 600, 200, 4)
	m.cgroup("system.slice/cri-containerd-a-y.scope", 2*time.Second, 60, 20, 1)
	m.rt.fault = errUnavailable
	pods, err := m.collector().Pods(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if a := pods.Get("a"); a.CPU.Total != 3*time.Second || a.WorkingSet() != 440 || *a.Processes != 5 {
		t.Errorf("%+v", a)
	}
}

// A failed measurement must not hide the others.
func TestWhatCannotBeMeasuredIsMissing(t *testing.T) {
	m := newMachine(t)
	m.pod("a", "x")
	m.cgroup("podstead/poda", 2*time.Second, 1000, 300, 5)
	m.cgroup("podstead/poda/cri-containerd-a-x.scope", time.Second, 600, 200, 4)
	m.pod("b", "x")
	m.cgroup("podstead/podb", 2*time.Second, 1000, 300, 5)
	m.rt.fault = errUnavailable
	pods, err := m.collector().Pods(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if pods.Missing != 1 || pods.Get("a").Containers[0].WorkingSet() != 400 || pods.Get("b").WorkingSet() != 700 ||
		pods.Get("b").Containers[0].Memory != nil {
		t.Errorf("%+v", pods)
	}
}

// A runtime that has no statistics is no fault: the pods on this kernel are measured without it.
func TestRuntimeWithoutStatistics(t *testing.T) {
	m := newMachine(t)
	m.pod("vm", "x")
	m.rt.fault = fmt.Errorf("list container stats: %w", errors.ErrUnsupported)
	c := m.collector()
	pods, err := c.Pods(t.Context(), 0)
	if err != nil || pods.Missing != 1 || c.fault != "" {
		t.Errorf("%v: %d are missing, fault %q", err, pods.Missing, c.fault)
	}
	m.rt.fault = errUnavailable
	if _, err := c.Pods(t.Context(), 0); err != nil || c.fault == "" {
		t.Errorf("%v: the runtime does not answer, fault %q", err, c.fault)
	}
}

func TestTenReadersCostAsOne(t *testing.T) {
	m := newMachine(t)
	m.pod("vm", "x") // each measurement of it is two calls
	c := m.collector()
	synctest.Test(t, func(t *testing.T) {
		c := New(c.cfg)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := c.Pods(t.Context(), time.Second); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if m.rt.calls != 2 {
			t.Errorf("ten readers made %d calls", m.rt.calls)
		}
		time.Sleep(999 * time.Millisecond)
		if _, err := c.Pods(t.Context(), time.Second); err != nil || m.rt.calls != 2 {
			t.Errorf("what is young enough was measured again (%v)", err)
		}
		time.Sleep(time.Hour)
		if m.rt.calls != 2 {
			t.Error("it was measured without a caller")
		}
		if _, err := c.Pods(t.Context(), time.Second); err != nil || m.rt.calls != 4 {
			t.Errorf("what is too old was not measured again (%v)", err)
		}
	})
}

func TestRates(t *testing.T) {
	m := newMachine(t)
	m.pod("a", "x")
	c := m.collector()
	synctest.Test(t, func(t *testing.T) {
		c := New(c.cfg)
		used := 100 * time.Second
		use := func(cores float64, d time.Duration) {
			time.Sleep(d)
			used += time.Duration(cores * float64(d))
			m.cgroup("podstead/poda", used, 1, 0, 1)
			m.cgroup("podstead/poda/a-x", used/2, 1, 0, 1)
		}
		rate := func() *float64 {
			pods, err := c.Pods(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			return pods.Get("a").CPU.Rate
		}
		near := func(got *float64, want float64) {
			t.Helper()
			if got == nil || math.Abs(*got-want) > 1e-3 {
				t.Errorf("rate %v, want %v", got, want)
			}
		}
		use(0, 0)
		if r := rate(); r != nil {
			t.Errorf("the first measurement has a rate of %v", *r)
		}
		use(0.5, time.Second)
		near(rate(), 0.5)
		use(0.5, 4*time.Second)
		near(rate(), 0.5)
		for range 10 {
			use(1.5, time.Second)
			rate()
		}
		near(rate(), 1.5)
		// There is no rate over a long pause.
		use(0.1, time.Hour)
		if r := rate(); r != nil {
			t.Errorf("of an hour ago there is a rate of %v", *r)
		}
		// A caller that needs a rate waits for it, while the container works.
		time.Sleep(time.Hour)
		go use(0.25, time.Second-time.Millisecond)
		_, pods, err := c.Rates(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if r := pods.Get("a").Containers[0].CPU.Rate; r == nil || math.Abs(*r-0.125) > 1e-3 {
			t.Errorf("rate %v, want 0.125", r)
		}
	})
}

// A container that just started used nothing before.
func TestRateOfAYoungContainer(t *testing.T) {
	var r rates
	now := time.Unix(1000, 0)
	cpu := &usage.CPU{}
	cpu.Total = 3 * time.Second
	r.begin()
	r.add("x", cpu, now, now.Add(-6*time.Second))
	r.end()
	if cpu.Rate == nil || *cpu.Rate != 0.5 || cpu.Window != 6*time.Second {
		t.Errorf("%+v", cpu)
	}
	r.begin()
	r.end()
	if len(r.byName) != 0 {
		t.Error("a removed container is remembered")
	}
}
