package cgroup

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// eachVersion runs a test on a machine of each cgroup version.
func eachVersion(t *testing.T, test func(t *testing.T, m *machine, v2 bool)) {
	t.Helper()
	for name, v2 := range map[string]bool{"v1": false, "v2": true} {
		t.Run(name, func(t *testing.T) { test(t, newMachine(t, v2, limitingControllers...), v2) })
	}
}

func TestPodsInTheirTiers(t *testing.T) {
	eachVersion(t, func(t *testing.T, m *machine, v2 bool) {
		c := m.cgroups(func(o *Options) { o.PodPids = 50 })
		for _, tc := range []struct {
			pod    *v1.Pod
			parent string
		}{
			{pod("g", [2]string{"1 1Gi", "1 1Gi"}), "/podstead/podg"},
			{pod("b", [2]string{"500m 256Mi", "2 1Gi"}, [2]string{"250m -", "1 -"}), "/podstead/burstable/podb"},
			{pod("e", [2]string{"", ""}), "/podstead/besteffort/pode"},
		} {
			for range 2 { // the second call has nothing to do
				if got, err := c.Ensure(t.Context(), tc.pod, ""); err != nil || got != tc.parent {
					t.Fatalf("%s: %s, %v, want %s", tc.pod.UID, got, err, tc.parent)
				}
			}
		}
		type value struct{ controller, path, v1file, v1value, v2file, v2value string }
		for _, want := range []value{
			{"memory", "/podstead", "memory.limit_in_bytes", "8589934592", "memory.max", "8589934592"},
			{"pids", "/podstead", "pids.max", "1000", "pids.max", "1000"},
			{"cpu", "/podstead", "cpu.shares", "4096", "cpu.weight", "157"},
			{"cpu", "/podstead/besteffort", "cpu.shares", "2", "cpu.weight", "1"},
			{"cpu", "/podstead/burstable", "cpu.shares", "768", "cpu.weight", "30"},

			{"cpu", "/podstead/podg", "cpu.shares", "1024", "cpu.weight", "39"},
			{"cpu", "/podstead/podg", "cpu.cfs_quota_us", "100000", "cpu.max", "100000 100000"},
			{"memory", "/podstead/podg", "memory.limit_in_bytes", "1073741824", "memory.max", "1073741824"},
			{"pids", "/podstead/podg", "pids.max", "50", "pids.max", "50"},
			{"hugetlb", "/podstead/podg", "hugetlb.2MB.limit_in_bytes", "0", "hugetlb.2MB.max", "0"},

			{"cpu", "/podstead/burstable/podb", "cpu.shares", "768", "cpu.weight", "30"},
			{"cpu", "/podstead/burstable/podb", "cpu.cfs_quota_us", "300000", "cpu.max", "300000 100000"},
			{"memory", "/podstead/burstable/podb", "memory.limit_in_bytes", "9223372036854771712", "memory.max", "max"},

			{"cpu", "/podstead/besteffort/pode", "cpu.shares", "2", "cpu.weight", "1"},
			{"cpu", "/podstead/besteffort/pode", "cpu.cfs_quota_us", "-1", "cpu.max", "max 100000"},
		} {
			file, text := want.v1file, want.v1value
			if v2 {
				file, text = want.v2file, want.v2value
			}
			if got := m.value(want.controller, want.path, file); got != text {
				t.Errorf("%s of %s is %q, want %q", file, want.path, got, text)
			}
		}
		if got := c.Pods(); !slices.Equal(got, []typesUID{"b", "e", "g"}) {
			t.Errorf("pods with a cgroup: %v", got)
		}
		// A resize updates the same cgroup.
		bigger := pod("b", [2]string{"1 256Mi", "2 1Gi"}, [2]string{"250m -", "1 1Gi"})
		if _, err := c.Ensure(t.Context(), bigger, "/podstead/burstable/podb"); err != nil {
			t.Fatal(err)
		}
		file, text := "memory.limit_in_bytes", "2147483648"
		if v2 {
			file = "memory.max"
		}
		if got := m.value("memory", "/podstead/burstable/podb", file); got != text {
			t.Errorf("%s is %s after a resize, want %s", file, got, text)
		}
		if got := m.value("cpu", "/podstead/burstable",
			map[bool]string{false: "cpu.shares", true: "cpu.weight"}[v2]); got != map[bool]string{false: "1280",
			true: "49"}[v2] {
			t.Errorf("share of the tier is %s after a resize", got)
		}
		for _, uid := range []typesUID{"g", "b", "e"} {
			if err := c.Destroy(t.Context(), uid, ""); err != nil {
				t.Fatal(err)
			}
			if left := m.left("pod" + uid); len(left) > 0 {
				t.Errorf("remaining of %s: %v", uid, left)
			}
		}
		if got := m.value("cpu", "/podstead/burstable",
			map[bool]string{false: "cpu.shares", true: "cpu.weight"}[v2]); got != map[bool]string{false: "2", true: "1"}[v2] {
			t.Errorf("share of the empty tier is %s", got)
		}
	})
}

// A limit that the machine cannot enforce holds its pod; other pods start.
func TestMissingController(t *testing.T) {
	eachVersion(t, func(t *testing.T, _ *machine, v2 bool) {
		m := newMachine(t, v2, controllerCPU, controllerPids)
		c := m.cgroups()
		if _, err := c.Ensure(t.Context(), pod("a", [2]string{"1 1Gi", "1 -"}), ""); err != nil {
			t.Errorf("a pod without a limit of memory: %v", err)
		}
		_, err := c.Ensure(t.Context(), pod("b", [2]string{"1 1Gi", "1 1Gi"}), "")
		if err == nil || !strings.Contains(err.Error(),
			"container a: resources.limits.memory needs the cgroup controller memory") {
			t.Errorf("a pod with one: %v", err)
		}
		huge := pod("c", [2]string{"1 -", ""})
		huge.Spec.Containers[0].Resources.Limits = v1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}
		if _, err := c.Ensure(t.Context(), huge, ""); err == nil || !strings.Contains(err.Error(), "hugetlb") {
			t.Errorf("a pod with hugepages: %v", err)
		}
	})
}

// Where cgroups cannot be created, they are left to the runtime, with one
// warning; a pod-level limit holds the pod. The cgroups can become writable
// later.
func TestReadOnly(t *testing.T) {
	m := newMachine(t, false, limitingControllers...)
	mkdir := m.h.mkdir
	m.h.mkdir = func(string) error { return &os.PathError{Op: "mkdir", Path: "/x", Err: syscall.EROFS} }
	var log bytes.Buffer
	c := m.cgroups(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 2 {
		if got, err := c.Ensure(t.Context(), pod("a", [2]string{"1 1Gi", "1 1Gi"}), ""); err != nil || got != "" {
			t.Fatalf("parent %q, %v", got, err)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, log.String())
	}
	whole := pod("b", [2]string{"", ""})
	r := requirements("", "1 1Gi")
	whole.Spec.Resources = &r
	if _, err := c.Ensure(t.Context(), whole, ""); err == nil ||
		!strings.Contains(err.Error(), "spec.resources.limits cannot be set") {
		t.Errorf("a pod with limits of its own: %v", err)
	}
	if err := c.Destroy(t.Context(), "a", ""); err != nil {
		t.Error(err)
	}
	m.h.mkdir = mkdir
	if got, err := c.Ensure(t.Context(), whole, ""); err != nil || got != "/podstead/podb" {
		t.Errorf("once cgroups can be made: %q, %v", got, err)
	}
}

// Processes that remain in a pod's cgroup are killed until none is left.
func TestDestroyEndsWhatIsLeft(t *testing.T) {
	eachVersion(t, func(t *testing.T, m *machine, _ bool) {
		synctest.Test(t, func(t *testing.T) { destroyEndsWhatIsLeft(t, m) })
	})
}

func destroyEndsWhatIsLeft(t *testing.T, m *machine) {
	var killed []int
	dir := ""
	c := m.cgroups(func(o *Options) {
		o.kill = func(pid int) error {
			killed = append(killed, pid)
			if len(killed) == 3 { // the process ends after three signals
				writeFiles(t, dir, map[string]string{"cgroup.procs": ""})
			}
			return nil
		}
	})
	if _, err := c.Ensure(t.Context(), pod("a", [2]string{"", ""}), ""); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(m.h.directory(controllerPids, "/podstead/besteffort/poda"), "container")
	if err := m.mkdir(dir); err != nil {
		t.Fatal(err)
	}
	// Neither a process of another PID namespace nor this process is
	// killed.
	writeFiles(t, dir, map[string]string{"cgroup.procs": "0\n1\n4194300\n"})
	if err := c.Destroy(t.Context(), "a", ""); err != nil || !slices.Equal(killed, []int{4194300, 4194300, 4194300}) {
		t.Errorf("killed %v, %v", killed, err)
	}
	if left := m.left("poda"); len(left) > 0 {
		t.Errorf("remaining: %v", left)
	}
	killed = nil
	if _, err := c.Ensure(t.Context(), pod("a", [2]string{"", ""}), ""); err != nil {
		t.Fatal(err)
	}
	dir = m.h.directory(controllerPids, "/podstead/besteffort/poda")
	writeFiles(t, dir, map[string]string{"cgroup.procs": "4194300"})
	c.kill = func(pid int) error { killed = append(killed, pid); return nil }
	if err := c.Destroy(t.Context(), "a", ""); err == nil || len(killed) != killPasses {
		t.Errorf("a process that does not end: killed %d times, %v", len(killed), err)
	}
}

// A pod keeps the cgroup that it was created in, whatever root and driver are
// configured now.
func TestOtherRoot(t *testing.T) {
	m := newMachine(t, false, limitingControllers...)
	p := pod("a-b", [2]string{"1 1Gi", "2 2Gi"})
	before, err := m.cgroups().Ensure(t.Context(), p, "")
	if err != nil {
		t.Fatal(err)
	}
	c := m.cgroups(func(o *Options) { o.Root = "/other" })
	p.Spec.Containers[0].Resources = requirements("1 1Gi", "2 3Gi")
	if got, err := c.Ensure(t.Context(), p, before); err != nil || got != before {
		t.Errorf("parent %q, %v, want %q", got, err, before)
	}
	if got := m.value("memory", before, "memory.limit_in_bytes"); got != "3221225472" {
		t.Errorf("its limit is %s", got)
	}
	for _, parent := range []string{"/system/x", "/podstead/burstable/podother", "relative/poda-b", "/podstead/../poda-b",
		"user.slice"} {
		if _, err := c.Ensure(t.Context(), p, parent); err == nil {
			t.Errorf("%s is mistaken for the pod's", parent)
		}
	}
	if err := c.Destroy(t.Context(), p.UID, before); err != nil {
		t.Error(err)
	}
	if left := m.left(p.UID); len(left) > 0 {
		t.Errorf("remaining: %v", left)
	}
	for _, uid := range []typesUID{"", "../x", "a/b", "."} {
		if err := c.Destroy(t.Context(), uid, ""); err == nil {
			t.Errorf("UID %q is accepted", uid)
		}
	}
}

// The runtime is asked for the driver until it responds.
func TestDriverIsAskedUntilItAnswers(t *testing.T) {
	m := newMachine(t, true, limitingControllers...)
	asked := 0
	c := m.cgroups(func(o *Options) {
		o.Driver = func(context.Context) (Driver, error) {
			if asked++; asked == 1 {
				return "", errors.New("down")
			}
			return Cgroupfs, nil
		}
	})
	if _, err := c.Ensure(t.Context(), pod("a", [2]string{"", ""}), ""); err == nil ||
		!strings.Contains(err.Error(), "down") {
		t.Errorf("the first time: %v", err)
	}
	for range 2 {
		if _, err := c.Ensure(t.Context(), pod("a", [2]string{"", ""}), ""); err != nil {
			t.Error(err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}
