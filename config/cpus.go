package config

import (
	"cmp"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/cpus"
)

// CPUs are the settings of the CPU manager.
type CPUs struct {
	// Policy is cpus.PolicyNone or cpus.PolicyStatic, and Options are those of the latter.
	Policy  string
	Options cpus.Options
	// Reserved are the CPUs of reservedSystemCPUs; empty if not set.
	Reserved cpus.Set

	options  map[string]string
	reserved string
}

func (c *CPUs) settings() []setting {
	return []setting{
		{
			flag: "cpu-manager-policy", field: "cpuManagerPolicy",
			value: choice(&c.Policy, cpus.PolicyNone, ": %q is not a policy; use none or static", cpus.PolicyNone,
				cpus.PolicyStatic),
			help: "none, or static: assign exclusive CPUs to containers of Guaranteed pods that request whole CPUs",
		},
		{flag: "cpu-manager-policy-options", field: "cpuManagerPolicyOptions",
			value: pairs(&c.options, `{full-pcpus-only: "true"}`), check: parsed(&c.options, &c.Options, cpus.ParseOptions),
			help: "`options` of the policy static, such as full-pcpus-only=true: full-pcpus-only, " +
				"distribute-cpus-across-numa, strict-cpu-reservation, align-by-socket, prefer-align-cpus-by-uncorecache"},
		{flag: "reserved-cpus", field: "reservedSystemCPUs", value: text(&c.reserved, ""),
			check: parsed(&c.reserved, &c.Reserved, cpus.ParseSet),
			help: "`list` of CPUs that are reserved for the system, such as 0-1; it replaces cpu in --system-reserved and " +
				"--kube-reserved"},
	}
}

func (c *CPUs) check(t *table, cgroups *Cgroups) {
	if c.Policy == cpus.PolicyNone && len(c.options) > 0 {
		policy := t.at(&c.Policy)
		t.fail("%s: have an effect only with the policy %s; set %s to it, or remove the options", t.at(&c.options),
			cpus.PolicyStatic, policy)
	}
	if len(c.Reserved) > 0 {
		cgroups.reserveCPUs(len(c.Reserved))
	}
}

// checkHost validates that this host has the CPUs, and that its kernel can bind containers to CPUs.
// root is that of Cgroups.check.
func (c *CPUs) checkHost(t *table, root string, cgroups *Cgroups) {
	policy, reserved := t.at(&c.Policy), t.at(&c.reserved)
	if c.Policy == cpus.PolicyNone && len(c.Reserved) == 0 || policy.broken || reserved.broken {
		return
	}
	root = cmp.Or(root, "/")
	topology, err := cpus.ReadTopology(filepath.Join(root, "sys"))
	if err != nil {
		t.fail("%w", err)
		return
	}
	if len(c.Reserved) > 0 {
		if _, err := cpus.Reserved(topology, c.Reserved, 0); err != nil {
			t.fail("%s: %w", reserved, err)
			return
		}
	}
	if c.Policy == cpus.PolicyNone || !t.sound(&cgroups.systemReserved, &cgroups.kubeReserved) {
		return
	}
	if _, err := cpus.Reserved(topology, c.Reserved, cgroups.ReservedCPU()); err != nil {
		t.fail("%s: %s %w", policy, cpus.PolicyStatic, err)
	} else if r, err := cgroup.OpenReader(filepath.Join(root, "proc/self/mountinfo")); err == nil && !r.CPUSet() {
		t.fail("%s: %s is not supported on this node: the kernel's cpuset controller is disabled or not mounted; podstead "+
			"check says how to mount it", policy, cpus.PolicyStatic)
	}
}

// reserveCPUs replaces the reserved amount of cpu by a number of CPUs, as the kubelet does.
func (c *Cgroups) reserveCPUs(n int) {
	for i := range c.Reserved {
		delete(c.Reserved[i], v1.ResourceCPU)
	}
	if c.Reserved[0] == nil {
		c.Reserved[0] = v1.ResourceList{}
	}
	c.Reserved[0][v1.ResourceCPU] = *resource.NewQuantity(int64(n), resource.DecimalSI)
}

// ReservedCPU returns the amount of cpu that is reserved, in millicores.
func (c *Cgroups) ReservedCPU() (milli int64) {
	for _, list := range c.Reserved {
		milli += list.Cpu().MilliValue()
	}
	return milli
}
