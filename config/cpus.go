package config

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/config/kubeletconfig"
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

func (c *CPUs) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Policy, "cpu-manager-policy", cpus.PolicyNone, "none, or static: assign exclusive CPUs to containers of Guaranteed pods that request whole CPUs")
	f.StringToStringVar(&c.options, "cpu-manager-policy-options", nil, "`options` of the policy static, such as full-pcpus-only=true: full-pcpus-only, distribute-cpus-across-numa, strict-cpu-reservation, align-by-socket, prefer-align-cpus-by-uncorecache")
	f.StringVar(&c.reserved, "reserved-cpus", "", "`list` of CPUs that are reserved for the system, such as 0-1; it replaces cpu in --system-reserved and --kube-reserved")
}

// merge applies the settings of the file that no flag sets.
func (c *CPUs) merge(file *kubeletconfig.CPUs, take func(flag string, set bool, apply func())) {
	take("cpu-manager-policy", file.Policy != "", func() { c.Policy = file.Policy })
	take("cpu-manager-policy-options", file.Options != nil, func() { c.options = file.Options })
	take("reserved-cpus", file.Reserved != "", func() { c.reserved = file.Reserved })
}

func (c *CPUs) check() (err error) {
	if c.Policy == "" {
		c.Policy = cpus.PolicyNone
	}
	if c.Policy != cpus.PolicyNone && c.Policy != cpus.PolicyStatic {
		return fmt.Errorf("--cpu-manager-policy: %q is not a policy; use %s or %s", c.Policy, cpus.PolicyNone, cpus.PolicyStatic)
	}
	if c.Policy == cpus.PolicyNone && len(c.options) > 0 {
		return fmt.Errorf("--cpu-manager-policy-options: have an effect only with the policy %s; set --cpu-manager-policy to it, or remove the options", cpus.PolicyStatic)
	}
	if c.Options, err = cpus.ParseOptions(c.options); err != nil {
		return fmt.Errorf("--cpu-manager-policy-options: %w", err)
	}
	if c.Reserved, err = cpus.ParseSet(c.reserved); err != nil {
		return fmt.Errorf("--reserved-cpus: %w", err)
	}
	return nil
}

// checkHost returns an error for CPUs that this host does not have, or if its kernel cannot bind
// containers to CPUs. root is that of Cgroups.checkHost. reserved is the amount that is reserved
// in millicores.
func (c *CPUs) checkHost(root string, reserved int64) error {
	if c.Policy == cpus.PolicyNone && len(c.Reserved) == 0 {
		return nil
	}
	if root == "" {
		root = "/"
	}
	topology, err := cpus.ReadTopology(filepath.Join(root, "sys"))
	if err != nil {
		return err
	}
	if len(c.Reserved) > 0 {
		if _, err := cpus.Reserved(topology, c.Reserved, 0); err != nil {
			return fmt.Errorf("--reserved-cpus: %w", err)
		}
	}
	if c.Policy == cpus.PolicyNone {
		return nil
	}
	if _, err := cpus.Reserved(topology, c.Reserved, reserved); err != nil {
		return fmt.Errorf("--cpu-manager-policy: %s %w", cpus.PolicyStatic, err)
	}
	if r, err := cgroup.OpenReader(filepath.Join(root, "proc/self/mountinfo")); err == nil && !r.CPUSet() {
		return fmt.Errorf("--cpu-manager-policy: %s is not supported on this node: the kernel's cpuset controller is disabled or not mounted; podstead check says how to mount it", cpus.PolicyStatic)
	}
	return nil
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
