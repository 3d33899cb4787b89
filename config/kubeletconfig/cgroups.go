package kubeletconfig

import (
	"fmt"
	"math"
	"time"
)

// Cgroups are the fields about cgroups and allocatable resources.
type Cgroups struct {
	// Root is cgroupRoot, the parent of the kubelet's kubepods.
	Root        string
	Driver      string
	PodPids     *int
	CPUQuota    *bool
	QuotaPeriod *time.Duration
	Enforce     []string
	// SystemCgroup and KubeCgroup are systemReservedCgroup and kubeReservedCgroup, empty if not
	// set.
	SystemCgroup, KubeCgroup string
	KubeReserved             map[string]string
	// SystemReserved and KubeReserved are quantities by resource.
	SystemReserved       map[string]string
	SingleProcessOOMKill *bool
	// FailSwapOn rejects a node with swap.
	FailSwapOn *bool
}

// cgroupFields are the fields of Cgroups.
var cgroupFields = map[string]func(*parser, string, any){
	"cgroupRoot":             func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Cgroups.Root) },
	"cgroupDriver":           func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Cgroups.Driver) },
	"podPidsLimit":           func(p *parser, n string, v any) { p.number(n, v, -1, math.MaxInt32, &p.cfg.Cgroups.PodPids) },
	"cpuCFSQuota":            func(p *parser, n string, v any) { p.boolean(n, v, &p.cfg.Cgroups.CPUQuota) },
	"cpuCFSQuotaPeriod":      func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.Cgroups.QuotaPeriod) },
	"enforceNodeAllocatable": (*parser).enforce,
	"kubeReserved":           func(p *parser, n string, v any) { p.amounts(n, v, &p.cfg.Cgroups.KubeReserved) },
	"systemReserved":         func(p *parser, n string, v any) { p.amounts(n, v, &p.cfg.Cgroups.SystemReserved) },
	"systemReservedCgroup":   func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Cgroups.SystemCgroup) },
	"kubeReservedCgroup":     func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Cgroups.KubeCgroup) },
	"singleProcessOOMKill":   func(p *parser, n string, v any) { p.boolean(n, v, &p.cfg.Cgroups.SingleProcessOOMKill) },
	"failSwapOn":             func(p *parser, n string, v any) { p.boolean(n, v, &p.cfg.Cgroups.FailSwapOn) },
}

// amounts parses a map of resource to quantity. The caller of this package validates the
// quantities.
func (p *parser) amounts(name string, v any, to *map[string]string) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "must be a map of resource to quantity, such as {cpu: 500m, memory: 1Gi}")
		return
	}
	*to = map[string]string{}
	for _, key := range sortedKeys(m) {
		switch m[key].(type) {
		case string, float64:
			(*to)[key] = fmt.Sprint(m[key])
		default:
			p.fail(name+"."+key, "%v is not a valid quantity, such as 500m or 1Gi", m[key])
		}
	}
}

// enforce parses enforceNodeAllocatable. The caller of this package validates its values.
func (p *parser) enforce(name string, v any) {
	list, ok := v.([]any)
	if !ok {
		p.fail(name, "must be a list, such as [pods]")
		return
	}
	p.cfg.Cgroups.Enforce = []string{}
	for i, e := range list {
		var level string
		p.text(fmt.Sprintf("%s[%d]", name, i), e, &level)
		p.cfg.Cgroups.Enforce = append(p.cfg.Cgroups.Enforce, level)
	}
}
