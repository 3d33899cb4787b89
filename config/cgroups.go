package config

import (
	"cmp"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

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

	// failSwapOn rejects a node with swap.
	failSwapOn bool

	SystemCgroups

	systemReserved, kubeReserved map[string]string
	cpuQuota                     bool
	oomKillSet                   bool
}

const (
	defaultQuotaPeriod = 100 * time.Millisecond
	enforcePods        = "pods"
	enforceNone        = "none"
	noPidsLimit        = int64(-1)
)

func (c *Cgroups) settings() []setting {
	return []setting{
		{
			// The kubelet's root is the parent of its kubepods; podstead uses its own cgroup there.
			flag: "cgroup-root", field: "cgroupRoot", value: text(&c.Root, cgroup.DefaultRoot).reading(func(n node) bool {
				parent, ok := n.text()
				if ok = ok && parent != ""; ok {
					c.Root = path.Join("/", parent, cgroup.DefaultRoot)
				}
				return ok
			}).as(func() any { return path.Dir(c.Root) }),
			check: c.checkRoot,
			help:  "`path` of the parent cgroup of all pods; must not be the kubelet's",
		},
		{
			flag: "cgroup-driver", field: "cgroupDriver",
			value: choice(&c.Driver, "", " is %q: must be cgroupfs or systemd", string(cgroup.Cgroupfs),
				string(cgroup.Systemd)).reading(func(n node) (ok bool) {
				c.DriverHint, ok = n.text()
				return ok && c.DriverHint != ""
			}),
			check: func(s *setting) {
				if d := c.DriverHint; d != "" && !slices.Contains(s.value.choices, d) {
					s.fail(s.value.wrong, d)
				}
			},
			shown: func(d RuntimeDefaults) any { return orNone(cmp.Or(d.CgroupDriver, c.Driver, c.DriverHint)) },
			help:  "cgroup driver: cgroupfs or systemd (default: the runtime's)",
		},
		{flag: "system-reserved", field: "systemReserved", value: amounts(&c.systemReserved),
			check: c.checkReserved(&c.systemReserved, 0),
			help:  "`resources` reserved for the system, such as cpu=500m,memory=1Gi,pid=1000"},
		{flag: "kube-reserved", field: "kubeReserved", value: amounts(&c.kubeReserved),
			check: c.checkReserved(&c.kubeReserved, 1),
			help:  "`resources` reserved for podstead and the runtime, such as cpu=100m,memory=200Mi"},
		{
			flag: "enforce-node-allocatable", field: "enforceNodeAllocatable",
			value: texts(&c.enforce, enforcePods).reading(func(n node) bool {
				if _, ok := n.value.([]any); !ok {
					n.fail("must be a list, such as [pods]")
					return false
				}
				levels, ok := n.texts()
				c.enforce = append([]string{}, levels...) // an empty list enforces nothing
				return ok
			}),
			check: func(*setting) { c.EnforceAllocatable = slices.Contains(c.enforce, enforcePods) },
			help: "pods: limit all pods together to the allocatable resources; system-reserved and kube-reserved: limit the " +
				"cgroups of --system-reserved-cgroup and --kube-reserved-cgroup to what is reserved for them (with " +
				"-compressible: only their CPU shares); none: only use them for admission",
		},
		{flag: "system-reserved-cgroup", field: "systemReservedCgroup", value: text(&c.SystemCgroup, ""),
			help: "`path` of the cgroup of system services, such as /system.slice, for " +
				"--enforce-node-allocatable=system-reserved"},
		{flag: "kube-reserved-cgroup", field: "kubeReservedCgroup", value: text(&c.KubeCgroup, ""),
			help: "`path` of the cgroup of podstead and the runtime, for --enforce-node-allocatable=kube-reserved"},
		{
			flag: "pod-max-pids", field: "podPidsLimit",
			value: valueOf(&c.PodPids, noPidsLimit, (*pflag.FlagSet).Int64Var, func(n node) (int64, bool) {
				pids, ok := n.number(int(noPidsLimit), math.MaxInt32)
				return int64(pids), ok
			}),
			check: func(s *setting) {
				if c.PodPids < noPidsLimit {
					s.fail("=%d: must be a number of processes, or -1 for no limit", c.PodPids)
				}
				c.PodPids = max(c.PodPids, 0)
			},
			shown: func(RuntimeDefaults) any { return cmp.Or(c.PodPids, noPidsLimit) },
			help:  "maximum `number` of processes per pod; -1 for no limit",
		},
		{flag: "cpu-cfs-quota", field: "cpuCFSQuota", value: boolean(&c.cpuQuota, true),
			check: func(*setting) { c.NoCPUQuota = !c.cpuQuota },
			help:  "enforce the CPU limits of containers with CFS quota"},
		{flag: "cpu-cfs-quota-period", field: "cpuCFSQuotaPeriod", value: duration(&c.QuotaPeriod, defaultQuotaPeriod),
			check: between(&c.QuotaPeriod, time.Millisecond, time.Second, "must be from 1ms to 1s"),
			help:  "CFS quota `period`, 1ms to 1s"},
		{
			field: "singleProcessOOMKill", value: boolean(&c.SingleProcessOOMKill, false),
			check: func(s *setting) { c.oomKillSet = s.isSet() },
			shown: func(RuntimeDefaults) any {
				if !c.oomKillSet {
					return nil // an explicit false is an error with cgroup v1
				}
				return c.SingleProcessOOMKill
			},
			help: "kill a single process instead of the whole container on an OOM",
		},
		{field: "failSwapOn", value: boolean(&c.failSwapOn, false), help: "true rejects a node with swap (default false)"},
	}
}

// cgroupPart matches one element of the root's path that both drivers can create: systemd
// joins the elements with dashes.
var cgroupPart = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func (c *Cgroups) checkRoot(s *setting) {
	root := path.Clean("/" + c.Root)
	for part := range strings.SplitSeq(strings.TrimPrefix(root, "/"), "/") {
		switch {
		case root == "/":
			s.fail("=%q: must not be the root cgroup; use for example %s", c.Root, cgroup.DefaultRoot)
		case strings.HasPrefix(part, "kubepods"):
			s.fail("=%q: a kubelet kills unknown pods there; use for example %s", c.Root, cgroup.DefaultRoot)
		case !cgroupPart.MatchString(part):
			s.fail("=%q: %q is not a valid cgroup name; use letters, digits, dots, dashes and underscores", c.Root, part)
		}
	}
	c.Root = root
}

// checkReserved returns a check that sets the part of Reserved with an index.
func (c *Cgroups) checkReserved(from *map[string]string, i int) func(*setting) {
	return func(s *setting) {
		if c.Reserved == nil {
			c.Reserved = make([]v1.ResourceList, 2)
		}
		parsed(from, &c.Reserved[i], cgroup.ParseReserved)(s)
	}
}
