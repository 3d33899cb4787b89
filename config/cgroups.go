package config

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/config/kubeletconfig"
	"github.com/podstead/podstead/node/cgroup"
)

// Cgroups are the settings of the pods' cgroups.
type Cgroups struct {
	// Root is the path of the parent cgroup of all pods, relative to the mount point.
	Root string
	// Driver is set by the flag and overrides the runtime's. DriverHint is set by the
	// config file and applies if the runtime does not report its driver.
	Driver, DriverHint string
	// Reserved are the resources that are not available to pods: those reserved for
	// the system, then those for podstead and the runtime.
	Reserved []v1.ResourceList
	// EnforceAllocatable limits all pods together to the allocatable resources.
	EnforceAllocatable bool
	// PodPids is the maximum number of processes in a pod; 0 for no limit.
	PodPids int64
	// NoCPUQuota disables the enforcement of CPU limits; QuotaPeriod is the CFS period.
	NoCPUQuota  bool
	QuotaPeriod time.Duration
	// SingleProcessOOMKill kills a single process instead of the whole container on an
	// OOM.
	SingleProcessOOMKill bool

	// failSwapOn is the setting, by the name under which it was set, that rejects a node with
	// swap; empty if none does. wholeOOMKill: the file sets singleProcessOOMKill to false.
	failSwapOn   string
	wholeOOMKill bool

	SystemCgroups

	systemReserved, kubeReserved map[string]string
	cpuQuota                     bool
}

const (
	defaultQuotaPeriod = 100 * time.Millisecond
	enforcePods        = "pods"
	enforceNone        = "none"
	noPidsLimit        = -1
)

func (c *Cgroups) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Root, "cgroup-root", cgroup.DefaultRoot, "`path` of the parent cgroup of all pods; must not be the kubelet's")
	f.StringVar(&c.Driver, "cgroup-driver", "", "cgroup driver: cgroupfs or systemd (default: the runtime's)")
	f.StringToStringVar(&c.systemReserved, "system-reserved", nil, "`resources` reserved for the system, such as cpu=500m,memory=1Gi,pid=1000")
	f.StringToStringVar(&c.kubeReserved, "kube-reserved", nil, "`resources` reserved for podstead and the runtime, such as cpu=100m,memory=200Mi")
	f.StringSliceVar(&c.enforce, "enforce-node-allocatable", []string{enforcePods}, "pods: limit all pods together to the allocatable resources; system-reserved and kube-reserved: limit the cgroups of --system-reserved-cgroup and --kube-reserved-cgroup to what is reserved for them (with -compressible: only their CPU shares); none: only use them for admission")
	f.StringVar(&c.SystemCgroup, "system-reserved-cgroup", "", "`path` of the cgroup of system services, such as /system.slice, for --enforce-node-allocatable=system-reserved")
	f.StringVar(&c.KubeCgroup, "kube-reserved-cgroup", "", "`path` of the cgroup of podstead and the runtime, for --enforce-node-allocatable=kube-reserved")
	f.Int64Var(&c.PodPids, "pod-max-pids", noPidsLimit, "maximum `number` of processes per pod; -1 for no limit")
	f.BoolVar(&c.cpuQuota, "cpu-cfs-quota", true, "enforce the CPU limits of containers with CFS quota")
	f.DurationVar(&c.QuotaPeriod, "cpu-cfs-quota-period", defaultQuotaPeriod, "CFS quota `period`, 1ms to 1s")
}

// merge applies the settings of the file that no flag sets.
func (c *Cgroups) merge(file *kubeletconfig.Cgroups, take func(flag string, set bool, apply func())) {
	// The kubelet's root is the parent of its kubepods; podstead uses its own cgroup there.
	take("cgroup-root", file.Root != "", func() { c.Root = path.Join("/", file.Root, cgroup.DefaultRoot) })
	c.DriverHint = file.Driver
	take("system-reserved", file.SystemReserved != nil, func() { c.systemReserved = file.SystemReserved })
	take("kube-reserved", file.KubeReserved != nil, func() { c.kubeReserved = file.KubeReserved })
	take("enforce-node-allocatable", file.Enforce != nil, func() { c.enforce = file.Enforce })
	take("system-reserved-cgroup", file.SystemCgroup != "", func() { c.SystemCgroup = file.SystemCgroup })
	take("kube-reserved-cgroup", file.KubeCgroup != "", func() { c.KubeCgroup = file.KubeCgroup })
	take("pod-max-pids", file.PodPids != nil, func() { c.PodPids = int64(*file.PodPids) })
	take("cpu-cfs-quota", file.CPUQuota != nil, func() { c.cpuQuota = *file.CPUQuota })
	take("cpu-cfs-quota-period", file.QuotaPeriod != nil, func() { c.QuotaPeriod = *file.QuotaPeriod })
	c.SingleProcessOOMKill = file.SingleProcessOOMKill != nil && *file.SingleProcessOOMKill
	c.wholeOOMKill = file.SingleProcessOOMKill != nil && !*file.SingleProcessOOMKill
	take("fail-swap-on", file.FailSwapOn != nil && *file.FailSwapOn, func() { c.failSwapOn = "failSwapOn" })
}

// cgroupPart matches one element of the root's path that both drivers can create: systemd
// joins the elements with dashes.
var cgroupPart = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func (c *Cgroups) check() error {
	root := path.Clean("/" + c.Root)
	parts := strings.Split(strings.TrimPrefix(root, "/"), "/")
	for _, part := range parts {
		switch {
		case root == "/":
			return fmt.Errorf("--cgroup-root=%q: must not be the root cgroup; use for example %s", c.Root, cgroup.DefaultRoot)
		case strings.HasPrefix(part, "kubepods"):
			return fmt.Errorf("--cgroup-root=%q: a kubelet kills unknown pods there; use for example %s", c.Root, cgroup.DefaultRoot)
		case !cgroupPart.MatchString(part):
			return fmt.Errorf("--cgroup-root=%q: %q is not a valid cgroup name; use letters, digits, dots, dashes and underscores", c.Root, part)
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
		return fmt.Errorf("--pod-max-pids=%d: must be a number of processes, or -1 for no limit", c.PodPids)
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
	return nil
}
