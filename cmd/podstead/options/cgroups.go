package options

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cmd/podstead/kubeletconfig"
	"github.com/podstead/podstead/node/cgroup"
)

// Cgroups are the settings of the pods' cgroups.
type Cgroups struct {
	// Root is the path of the root below each hierarchy's.
	Root string
	// Driver is that of the flag and wins over the runtime's; DriverHint that
	// of the config file, for a runtime that does not tell.
	Driver, DriverHint string
	// Reserved are what pods cannot have: for the system, and for podstead
	// and the runtime.
	Reserved []v1.ResourceList
	// EnforceAllocatable makes what is left the limit of all pods together.
	EnforceAllocatable bool
	// PodPids is how many processes a pod may have; 0 is no limit.
	PodPids int64
	// NoCPUQuota leaves limits of cpu unenforced; QuotaPeriod is the period
	// in which they count.
	NoCPUQuota  bool
	QuotaPeriod time.Duration
	// SingleProcessOOMKill leaves the rest of a container out of memory alone.
	SingleProcessOOMKill bool

	systemReserved, kubeReserved map[string]string
	enforce                      []string
	cpuQuota                     bool
}

const (
	defaultQuotaPeriod = 100 * time.Millisecond
	enforcePods        = "pods"
	enforceNone        = "none"
	noPidsLimit        = -1
)

func (c *Cgroups) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Root, "cgroup-root", cgroup.DefaultRoot, "`path` of the cgroup that all pods are below; never the kubelet's")
	f.StringVar(&c.Driver, "cgroup-driver", "", "cgroupfs or systemd (default: the runtime's)")
	f.StringToStringVar(&c.systemReserved, "system-reserved", nil, "what pods leave to the system, as `cpu=500m,memory=1Gi,pid=1000`")
	f.StringToStringVar(&c.kubeReserved, "kube-reserved", nil, "what pods leave to podstead and the runtime, as `cpu=100m,memory=200Mi`")
	f.StringSliceVar(&c.enforce, "enforce-node-allocatable", []string{enforcePods}, "pods: limit all pods together to what is left; none: only count it")
	f.Int64Var(&c.PodPids, "pod-max-pids", noPidsLimit, "`number` of processes a pod may have; -1 for any")
	f.BoolVar(&c.cpuQuota, "cpu-cfs-quota", true, "hold containers to their limits of cpu")
	f.DurationVar(&c.QuotaPeriod, "cpu-cfs-quota-period", defaultQuotaPeriod, "`time` in which a limit of cpu counts, 1ms to 1s")
}

// merge takes from the file what no flag says.
func (c *Cgroups) merge(file *kubeletconfig.Cgroups, take func(flag string, set bool, apply func())) {
	// The kubelet's root is what its own kubepods is below.
	take("cgroup-root", file.Root != "", func() { c.Root = path.Join("/", file.Root, cgroup.DefaultRoot) })
	c.DriverHint = file.Driver
	take("system-reserved", file.SystemReserved != nil, func() { c.systemReserved = file.SystemReserved })
	take("kube-reserved", file.KubeReserved != nil, func() { c.kubeReserved = file.KubeReserved })
	take("enforce-node-allocatable", file.Enforce != nil, func() { c.enforce = file.Enforce })
	take("pod-max-pids", file.PodPids != nil, func() { c.PodPids = int64(*file.PodPids) })
	take("cpu-cfs-quota", file.CPUQuota != nil, func() { c.cpuQuota = *file.CPUQuota })
	take("cpu-cfs-quota-period", file.QuotaPeriod != nil, func() { c.QuotaPeriod = *file.QuotaPeriod })
	c.SingleProcessOOMKill = file.SingleProcessOOMKill != nil && *file.SingleProcessOOMKill
}

// cgroupPart is one part of the root's path. Both drivers can make it: systemd
// puts dashes between the parts.
var cgroupPart = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func (c *Cgroups) check() error {
	root := path.Clean("/" + c.Root)
	parts := strings.Split(strings.TrimPrefix(root, "/"), "/")
	for _, part := range parts {
		switch {
		case root == "/":
			return fmt.Errorf("--cgroup-root=%q: must be a cgroup of its own, such as %s", c.Root, cgroup.DefaultRoot)
		case strings.HasPrefix(part, "kubepods"):
			return fmt.Errorf("--cgroup-root=%q: a kubelet ends what it does not know there; use another, such as %s", c.Root, cgroup.DefaultRoot)
		case !cgroupPart.MatchString(part):
			return fmt.Errorf("--cgroup-root=%q: %q is no name for a cgroup; use letters, digits, dots, dashes and underscores", c.Root, part)
		}
	}
	c.Root = root
	for name, driver := range map[string]string{"--cgroup-driver": c.Driver, "cgroupDriver of --config": c.DriverHint} {
		if driver != "" && driver != string(cgroup.Cgroupfs) && driver != string(cgroup.Systemd) {
			return fmt.Errorf("%s is %q: must be cgroupfs or systemd", name, driver)
		}
	}
	if c.PodPids == noPidsLimit || c.PodPids == 0 {
		c.PodPids = 0
	} else if c.PodPids < 0 {
		return fmt.Errorf("--pod-max-pids=%d: must be a number of processes, or -1 for any", c.PodPids)
	}
	if c.QuotaPeriod < time.Millisecond || c.QuotaPeriod > time.Second {
		return fmt.Errorf("--cpu-cfs-quota-period=%s: must be from 1ms to 1s", c.QuotaPeriod)
	}
	c.NoCPUQuota = !c.cpuQuota
	return c.checkReserved()
}

func (c *Cgroups) checkReserved() error {
	c.Reserved = nil
	for _, from := range []struct {
		flag string
		list map[string]string
	}{{"system-reserved", c.systemReserved}, {"kube-reserved", c.kubeReserved}} {
		reserved, err := cgroup.ParseReserved(from.list)
		if err != nil {
			return fmt.Errorf("--%s: %w", from.flag, err)
		}
		c.Reserved = append(c.Reserved, reserved)
	}
	c.EnforceAllocatable = slices.Contains(c.enforce, enforcePods)
	for _, what := range c.enforce {
		if what != enforcePods && what != enforceNone && what != "" {
			return fmt.Errorf("--enforce-node-allocatable: %q cannot be enforced; pods can, or none", what)
		}
	}
	return nil
}
