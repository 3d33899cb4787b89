package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/cgroupvalues"
)

type typesUID = types.UID

func TestWeight(t *testing.T) {
	for shares, want := range map[int64]int64{2: 1, 1024: 39, 262144: 10000} {
		if got := weight(shares); got != want {
			t.Errorf("weight(%d) = %d, want %d", shares, got, want)
		}
	}
}

func TestPodLimits(t *testing.T) {
	o := &Options{Settings: cgroupvalues.Settings{PageSizes: []string{"2Mi", "1Gi"}}}
	always := v1.ContainerRestartPolicyAlways
	with := func(change func(*v1.Pod), containers ...[2]string) *v1.Pod {
		p := pod("a", containers...)
		change(p)
		return p
	}
	for name, tc := range map[string]struct {
		pod                   *v1.Pod
		shares, quota, memory int64
		huge                  int64
	}{
		"sidecars add up with the largest init container": {pod: with(func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{
				{Name: "side", RestartPolicy: &always, Resources: requirements("100m 1Gi", "100m 1Gi")},
				{Name: "init", Resources: requirements("2 1Gi", "2 1Gi")},
			}
		}, [2]string{"1 1Gi", "1 1Gi"}), shares: 2150, quota: 210000, memory: 2 << 30},
		"pod-level values replace the sum": {pod: with(func(p *v1.Pod) {
			r := requirements("1 1Gi", "2 4Gi")
			p.Spec.Resources = &r
		}, [2]string{"500m -", ""}), shares: 1024, quota: 200000, memory: 4 << 30},
		"overhead raises existing limits": {pod: with(func(p *v1.Pod) {
			p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"),
				v1.ResourceMemory: resource.MustParse("1Gi")}
		}, [2]string{"750m -", "- 1Gi"}), shares: 1024, quota: noLimit, memory: 2 << 30},
		"hugepages": {pod: with(func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Limits["hugepages-2Mi"] = resource.MustParse("8Mi")
		}, [2]string{"1 -", "1 -"}), shares: 1024, quota: 100000, memory: noLimit, huge: 8 << 20},
	} {
		l := o.podLimits(tc.pod)
		if l.shares != tc.shares || l.quota != tc.quota || l.memory != tc.memory || l.hugePages["2MB"] != tc.huge ||
			l.hugePages["1GB"] != 0 || len(l.hugePages) != 2 {
			t.Errorf("%s: %+v, want %+v", name, l, tc)
		}
	}
	o.NoQuota = func(uid types.UID) bool { return uid == pod("a").UID }
	if l := o.podLimits(pod("a", [2]string{"1 -", "1 -"})); l.quota != noLimit || l.shares != 1024 {
		t.Errorf("with exclusive CPUs: %+v", l)
	}
	o.NoQuota = nil
	o.Settings.NoCPUQuota = true
	if l := o.podLimits(pod("a", [2]string{"1 -", "1 -"})); l.quota != noLimit {
		t.Errorf("without quotas: %+v", l)
	}
}

func TestFindHierarchies(t *testing.T) {
	const hybrid = `30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
35 30 0:31 / /mnt/with\040space rw - cgroup cgroup rw,pids
36 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
`
	for name, tc := range map[string]struct {
		mountinfo, unified string
		controllers        []string
		all                int
	}{
		"hybrid":  {hybrid, "", []string{"cpu", "memory", "pids"}, 5},
		"unified": {"25 30 0:23 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", "/sys/fs/cgroup", nil, 1},
		"none":    {"25 30 0:23 / /sys rw - sysfs sysfs rw\n", "", nil, 0},
	} {
		file := filepath.Join(t.TempDir(), "mountinfo")
		if err := os.WriteFile(file, []byte(tc.mountinfo), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := findHierarchies(file)
		if tc.all == 0 {
			if err == nil {
				t.Errorf("%s: %+v, want an error", name, h)
			}
			continue
		}
		if err != nil || h.unified != tc.unified || len(h.all) != tc.all {
			t.Fatalf("%s: %+v, %v", name, h, err)
		}
		if h.v2() {
			continue
		}
		if got, err := h.controllers("/"); err != nil || !slices.Equal(got, tc.controllers) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if got := h.directory("pids", "/x"); got != "/mnt/with space/x" {
			t.Errorf("%s: pids are in %q", name, got)
		}
	}
}

func TestSameValue(t *testing.T) {
	for _, tc := range []struct {
		now, want string
		same      bool
	}{
		{"5", "5", true}, {"5", "6", false}, {"max", "max", true},
		{"9223372036854771712", "-1", true}, {"4096", "-1", false},
		{"8192", "8200", true}, {"4096", "8200", false}, {"0", "1", false}, {"", "5", false}, {"x", "5", false},
	} {
		if got := sameValue(tc.now, tc.want); got != tc.same {
			t.Errorf("sameValue(%q, %q) = %v", tc.now, tc.want, got)
		}
	}
}

func TestLayouts(t *testing.T) {
	n := rootName("/a-b/podstead").child(tierBurstable).child(podName("0-1"))
	if got, want := Cgroupfs.path(n), "/a-b/podstead/burstable/pod0-1"; got != want || Cgroupfs.parent(n) != want {
		t.Errorf("cgroupfs: %s", got)
	}
	const unit = "a_b-podstead-burstable-pod0_1.slice"
	if got, want := Systemd.path(n), "/a_b.slice/a_b-podstead.slice/a_b-podstead-burstable.slice/"+unit; got != want ||
		cgroupPath(unit) != want {
		t.Errorf("systemd: %s, %s", got, cgroupPath(unit))
	}
	if Systemd.parent(n) != unit || !isPodCgroup(unit, "0-1") || isPodCgroup(unit, "1") {
		t.Errorf("the slice %s is not the pod's", Systemd.parent(n))
	}
}

func TestAllocatable(t *testing.T) {
	system, err := ParseReserved(map[string]string{"memory": "1Gi", "cpu": "500m"})
	if err != nil {
		t.Fatal(err)
	}
	kube, err := ParseReserved(map[string]string{"memory": "512Mi", "cpu": "9"})
	if err != nil {
		t.Fatal(err)
	}
	got := Allocatable(v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"),
		v1.ResourceMemory: resource.MustParse("8Gi"), ResourcePID: resource.MustParse("10")}, system, kube)
	if got.Cpu().Sign() != 0 || got.Memory().Value() != 6656<<20 {
		t.Errorf("allocatable: %v", got)
	}
	const pages = v1.ResourceHugePagesPrefix + "2Mi"
	got = Allocatable(v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Gi"), pages: resource.MustParse("1Gi")},
		system)
	if q := got[pages]; got.Memory().Value() != 6<<30 || q.Value() != 1<<30 {
		t.Errorf("allocatable with hugepages: %v", got)
	}
	dir := t.TempDir()
	for size, n := range map[string]string{"hugepages-2048kB": "3\n", "hugepages-1048576kB": "0\n",
		"hugepages-64kB": "x\n"} {
		if err := os.Mkdir(filepath.Join(dir, size), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, size, "nr_hugepages"), []byte(n), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list := hugePages(dir)
	two, giga := list[pages], list[v1.ResourceHugePagesPrefix+"1Gi"]
	if len(list) != 2 || two.Value() != 6<<20 || giga.Value() != 0 {
		t.Errorf("hugepages: %v", list)
	}
	for name, text := range map[string]string{"gpu": "1", "cpu": "x", "memory": "-1"} {
		if _, err := ParseReserved(map[string]string{name: text}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, text, err)
		}
	}
	capacity := Capacity()
	if capacity.Cpu().Value() < 1 || capacity.Memory().Value() < 1<<20 {
		t.Errorf("capacity of this machine: %v", capacity)
	}
}
