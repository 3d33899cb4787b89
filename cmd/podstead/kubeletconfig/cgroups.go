package kubeletconfig

import (
	"fmt"
	"math"
	"time"
)

// Cgroups are the fields about cgroups and what the node gives to pods.
type Cgroups struct {
	// Root is cgroupRoot: what the kubelet's kubepods would be below.
	Root         string
	Driver       string
	PodPids      *int
	CPUQuota     *bool
	QuotaPeriod  *time.Duration
	Enforce      []string
	KubeReserved map[string]string
	// SystemReserved is by resource, as KubeReserved.
	SystemReserved       map[string]string
	SingleProcessOOMKill *bool
}

// The fields of Cgroups.
var honouredCgroups = map[string]func(*parser, string, any){
	"cgroupRoot":             func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Cgroups.Root) },
	"cgroupDriver":           func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Cgroups.Driver) },
	"podPidsLimit":           func(p *parser, n string, v any) { p.number(n, v, -1, math.MaxInt32, &p.cfg.Cgroups.PodPids) },
	"cpuCFSQuota":            func(p *parser, n string, v any) { p.truth(n, v, &p.cfg.Cgroups.CPUQuota) },
	"cpuCFSQuotaPeriod":      func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.Cgroups.QuotaPeriod) },
	"enforceNodeAllocatable": (*parser).enforce,
	"kubeReserved":           func(p *parser, n string, v any) { p.amounts(n, v, &p.cfg.Cgroups.KubeReserved) },
	"systemReserved":         func(p *parser, n string, v any) { p.amounts(n, v, &p.cfg.Cgroups.SystemReserved) },
	"singleProcessOOMKill":   func(p *parser, n string, v any) { p.truth(n, v, &p.cfg.Cgroups.SingleProcessOOMKill) },
	"memorySwap":             (*parser).swap,
}

// amounts takes a map of resource to quantity; the quantities are judged by
// who uses them.
func (p *parser) amounts(name string, v any, to *map[string]string) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "want a map of resource to quantity, such as {cpu: 500m, memory: 1Gi}")
		return
	}
	*to = map[string]string{}
	for _, key := range sortedKeys(m) {
		switch m[key].(type) {
		case string, float64:
			(*to)[key] = fmt.Sprint(m[key])
		default:
			p.fail(name+"."+key, "%v is no quantity; write one such as 500m or 1Gi", m[key])
		}
	}
}

// enforce takes pods and none. The kubelet can also hold the system's own
// cgroups to what is reserved for them, which is left to systemd here.
func (p *parser) enforce(name string, v any) {
	list, ok := v.([]any)
	if !ok {
		p.fail(name, "want a list, such as [pods]")
		return
	}
	p.cfg.Cgroups.Enforce = []string{}
	for i, e := range list {
		switch e {
		case "pods", "none":
			p.cfg.Cgroups.Enforce = append(p.cfg.Cgroups.Enforce, e.(string))
		case "system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible":
			p.cfg.Ignored = append(p.cfg.Ignored, fmt.Sprintf("%s[%d] %s", name, i, e))
		default:
			p.fail(fmt.Sprintf("%s[%d]", name, i), "%v cannot be enforced; pods can", e)
		}
	}
}

// swap takes NoSwap, which is what pods get.
func (p *parser) swap(name string, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "%v is no map", v)
		return
	}
	for _, key := range sortedKeys(m) {
		switch {
		case key != "swapBehavior":
			p.fail(name+"."+key, "unknown field; did you mean swapBehavior?")
		case m[key] != "" && m[key] != "NoSwap":
			p.cfg.Ignored = append(p.cfg.Ignored, name+"."+key)
		}
	}
}
