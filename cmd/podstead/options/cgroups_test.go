package options

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
	if c := o.Cgroups; c.Root != "/podstead" || c.Driver != "" || !c.EnforceAllocatable || c.PodPids != 0 || c.NoCPUQuota || c.QuotaPeriod != 100*time.Millisecond {
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
	if c.Root != "/podstead" || c.Driver != "" || c.DriverHint != "systemd" || c.EnforceAllocatable || c.PodPids != 4096 || !c.NoCPUQuota || c.QuotaPeriod != 10*time.Millisecond {
		t.Errorf("options are %+v", c)
	}
	system, kube := c.Reserved[0], c.Reserved[1]
	if len(system) != 2 || system.Cpu().MilliValue() != 100 || kube.Memory().Value() != 512<<20 || kube.Cpu().Value() != 1 {
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
		{"--enforce-node-allocatable=all", `"all" is not supported`},
	} {
		if _, _, err := complete(t, c.arg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.arg, err, c.want)
		}
	}
}
