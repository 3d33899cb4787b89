package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestCgroupDefaults(t *testing.T) {
	o, _, err := complete(t)
	if err != nil {
		t.Fatal(err)
	}
	if c := o.Cgroups; c.Root != "/podstead" || c.Driver != "" || !c.EnforceAllocatable || c.PodPids != 0 ||
		c.NoCPUQuota || c.QuotaPeriod != 100*time.Millisecond {
		t.Errorf("defaults are %+v", c)
	}
}

// In a KubeletConfiguration as kubeadm writes it, the root is the parent of kubepods, and
// the driver applies to a runtime that does not report its own.
func TestCgroupsOfConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupRoot: /
cgroupDriver: systemd
podPidsLimit: 4096
cpuCFSQuota: false
cpuCFSQuotaPeriod: 10ms
enforceNodeAllocatable: [none]
systemReserved: {memory: 1Gi}
kubeReserved: {memory: 512Mi, cpu: "1"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	o, notices, err := complete(t, "--config", file, "--system-reserved", "cpu=100m,pid=10")
	if err != nil || len(notices) > 0 {
		t.Fatal(notices, err)
	}
	c := o.Cgroups
	if c.Root != "/podstead" || c.Driver != "" || c.DriverHint != "systemd" || c.EnforceAllocatable || c.PodPids != 4096 ||
		!c.NoCPUQuota || c.QuotaPeriod != 10*time.Millisecond {
		t.Errorf("options are %+v", c)
	}
	system, kube := c.Reserved[0], c.Reserved[1]
	if len(system) != 2 || system.Cpu().MilliValue() != 100 || kube.Memory().Value() != 512<<20 ||
		kube.Cpu().Value() != 1 {
		t.Errorf("reserved: %v", c.Reserved)
	}
	if pids := system["pid"]; pids.Value() != 10 {
		t.Errorf("reserved process IDs: %v", system[v1.ResourceName("pid")])
	}
}

func TestInvalidCgroupSettings(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"--cgroup-root=/", "must not be the root cgroup"},
		{"--cgroup-root=/kubepods", "a kubelet kills unknown pods"},
		{"--cgroup-root=/kubepods.slice/x", "a kubelet kills unknown pods"},
		{"--cgroup-root=/a b", `"a b" is not a valid cgroup name`},
		{"--cgroup-driver=runc", "must be cgroupfs or systemd"},
		{"--pod-max-pids=-2", "--pod-max-pids=-2"},
		{"--cpu-cfs-quota-period=2s", "--cpu-cfs-quota-period=2s"},
		{"--system-reserved=gpu=1", `--system-reserved: "gpu" cannot be reserved`},
		{"--kube-reserved=cpu=-1", `--kube-reserved: cpu="-1" is not a quantity`},
		{"--enforce-node-allocatable=all", `"all" is not supported; use pods, system-reserved, kube-reserved`},
		{"--enforce-node-allocatable=none,pods", "none excludes all others"},
		{"--enforce-node-allocatable=system-reserved --system-reserved=cpu=1",
			"system-reserved needs the cgroup to limit; set --system-reserved-cgroup"},
		{"--enforce-node-allocatable=kube-reserved-compressible --kube-reserved-cgroup=/x",
			"limits the cgroup to --kube-reserved, which is empty"},
		{"--enforce-node-allocatable=kube-reserved,kube-reserved-compressible --kube-reserved-cgroup=/x --kube-reserved=cpu=1", "kube-reserved is in the list twice"},
		{"--enforce-node-allocatable=kube-reserved --kube-reserved-cgroup=x --kube-reserved=cpu=1",
			"must be an absolute path"},
	} {
		if _, _, err := complete(t, split(c.arg)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.arg, err, c.want)
		}
	}
}

// split returns the flags of a line; a path may contain blanks.
func split(line string) []string {
	parts := strings.Split(line, " --")
	for i := range parts[1:] {
		parts[i+1] = "--" + parts[i+1]
	}
	return parts
}

// The cgroups of the system are limited to what is reserved for them if they exist.
func TestReservedCgroups(t *testing.T) {
	dir := t.TempDir()
	host := files(t, map[string]string{
		"proc/self/mountinfo": "30 20 0:25 / " + dir + " rw - cgroup2 cgroup2 rw\n", "sys/devices/system/cpu/online": "0-3\n",
	})
	for _, name := range []string{"cpu.weight", "memory.max"} {
		if err := os.MkdirAll(filepath.Join(dir, "system.slice"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "system.slice", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ fields, want string }{
		"exists": {"systemReservedCgroup: /system.slice\nsystemReserved: {cpu: 1, memory: " +
			"1Gi}\nenforceNodeAllocatable: [pods, system-reserved]\n", ""},
		"by CPUs": {"systemReservedCgroup: /system.slice\nreservedSystemCPUs: '0'\nenforceNodeAllocatable: " +
			"[system-reserved]\n", ""},
		"missing": {
			"systemReservedCgroup: /x.slice\nsystemReserved: {cpu: 1}\nenforceNodeAllocatable: [system-reserved]\n",
			":3: systemReservedCgroup: /x.slice cannot be limited on this node: there is no " + dir +
				"/x.slice/cpu.weight; create"},
		"controller": {
			"kubeReservedCgroup: /system.slice\nkubeReserved: {pid: 10}\nenforceNodeAllocatable: [kube-reserved]\n",
			":3: kubeReservedCgroup: /system.slice cannot be limited on this node: there is no " + dir +
				"/system.slice/pids.max"},
		"the pods": {"kubeReservedCgroup: /podstead\nkubeReserved: {pid: 10}\nenforceNodeAllocatable: [kube-reserved]\n",
			":3: kubeReservedCgroup: /podstead contains the pods"},
		"the root": {"kubeReservedCgroup: /\nkubeReserved: {pid: 10}\nenforceNodeAllocatable: [kube-reserved]\n",
			":3: kubeReservedCgroup: / contains the pods"},
		"no cgroup": {"kubeReserved: {pid: 10}\nenforceNodeAllocatable: [kube-reserved]\n",
			":4: enforceNodeAllocatable: kube-reserved needs the cgroup to limit; set --kube-reserved-cgroup"},
	} {
		file, err := completeOn(t, host, c.fields)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), file+c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	_, notices, err := complete(t, "--system-reserved-cgroup=/system.slice")
	if err != nil || len(notices) != 1 ||
		!strings.Contains(notices[0], "--system-reserved-cgroup has no effect without system-reserved in "+
			"--enforce-node-allocatable") {
		t.Errorf("a cgroup that nothing limits: %v, %v", notices, err)
	}
}
