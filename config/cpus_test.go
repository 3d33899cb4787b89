package config

import (
	"strings"
	"testing"
)

// The reserved CPUs replace the reserved amount of cpu, with each policy.
func TestReservedCPUs(t *testing.T) {
	for _, policy := range []string{"none", "static"} {
		o, notices, err := complete(t, "--cpu-manager-policy="+policy, "--reserved-cpus=0,2",
			"--system-reserved=cpu=500m,memory=1Gi", "--kube-reserved=cpu=100m")
		if err != nil || len(notices) > 0 {
			t.Fatal(err, notices)
		}
		if got := o.Cgroups.ReservedCPU(); got != 2000 || o.CPUs.Reserved.String() != "0,2" ||
			o.Cgroups.Reserved[0].Memory().Value() != 1<<30 {
			t.Errorf("%s: %d millicores, CPUs %s, %v", policy, got, o.CPUs.Reserved, o.Cgroups.Reserved)
		}
	}
	if o, _, err := complete(t, "--cpu-manager-policy=static", "--system-reserved=cpu=500m",
		"--kube-reserved=cpu=100m"); err != nil || o.Cgroups.ReservedCPU() != 600 {
		t.Error(err)
	}
}

// Faults of the CPU manager's settings name file, line and field, and what to do.
func TestInvalidCPUSettings(t *testing.T) {
	withoutCPUSet := files(t, map[string]string{
		"proc/self/mountinfo":           "30 20 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
		"sys/devices/system/cpu/online": "0-3\n",
	})
	for name, c := range map[string]struct{ host, fields, want string }{
		"policy": {"", "cpuManagerPolicy: dynamic\n",
			`:3: cpuManagerPolicy: "dynamic" is not a policy; use none or static`},
		"no reserve": {"", "cpuManagerPolicy: static\n", ":3: cpuManagerPolicy: static requires reserved CPUs"},
		"options": {"", "cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n",
			":3: cpuManagerPolicyOptions: have an effect only with the policy static"},
		"option": {"", "cpuManagerPolicyOptions: {pcpus: \"true\"}\ncpuManagerPolicy: static\n",
			`:3: cpuManagerPolicyOptions: "pcpus" is not a supported option; use`},
		"list": {"", "reservedSystemCPUs: all\n",
			`:3: reservedSystemCPUs: "all" is not a list of CPUs, such as 0-3,8`},
		"other machine": {"", "reservedSystemCPUs: 3-4\n",
			":3: reservedSystemCPUs: this node has no CPU 4; its CPUs are 0-3"},
		"all CPUs": {"", "reservedSystemCPUs: 0-3\n", ":3: reservedSystemCPUs: 0-3 are all CPUs of this node"},
		"kernel": {withoutCPUSet, "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n",
			":3: cpuManagerPolicy: static is not supported on this node: the kernel's cpuset controller"},
	} {
		if c.host == "" {
			c.host = testHost(t)
		}
		file, err := completeOn(t, c.host, c.fields)
		if err == nil || !strings.HasPrefix(err.Error(), file+c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
