package config

import (
	"cmp"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/node/cgroup"
)

// Memory are the settings of swap and memory QoS.
type Memory struct {
	// LimitedSwap lets the containers of Burstable pods use the node's swap.
	LimitedSwap bool
	// QoS throttles containers before their memory limit, at Throttling between request and
	// limit. Reserve protects the memory that they request from reclaim.
	QoS        bool
	Throttling float64
	Reserve    bool

	reservation string
}

// The values of memorySwap.swapBehavior and memoryReservationPolicy.
const (
	noSwap            = "NoSwap"
	limitedSwap       = "LimitedSwap"
	noReservation     = "None"
	tieredReservation = "TieredReservation"
)

// defaultThrottling is the kubelet's.
const defaultThrottling = 0.9

// settings have no flags, as at the kubelet.
func (m *Memory) settings() []setting {
	return []setting{
		{
			field: "memorySwap", value: boolean(&m.LimitedSwap, false).reading(m.readSwap),
			shown: func(RuntimeDefaults) any {
				if m.LimitedSwap {
					return map[string]any{"swapBehavior": limitedSwap}
				}
				return map[string]any{"swapBehavior": noSwap}
			},
			help: "swapBehavior: NoSwap, or LimitedSwap, which lets containers of Burstable pods swap (cgroup v2; default " +
				"NoSwap)",
		},
		{
			field: "featureGates", value: boolean(&m.QoS, false).reading(m.readGates),
			shown: func(RuntimeDefaults) any {
				if m.QoS {
					return map[string]any{"MemoryQoS": true}
				}
				return nil
			},
			help: "only MemoryQoS: true throttles containers before their memory limit (cgroup v2)",
		},
		{
			field: "memoryThrottlingFactor",
			value: valueOf(&m.Throttling, defaultThrottling, (*pflag.FlagSet).Float64Var, func(n node) (float64, bool) {
				factor, ok := n.value.(float64)
				if ok = ok && factor > 0 && factor <= 1; !ok {
					n.fail("%v must be a number above 0, and at most 1", n.value)
				}
				return factor, ok
			}),
			help: "with MemoryQoS, where between its memory request and limit a container is throttled (default 0.9)",
		},
		{
			field: "memoryReservationPolicy",
			value: choice(&m.reservation, noReservation, ": %s is not a policy; use None or TieredReservation",
				noReservation, tieredReservation),
			check: func(*setting) { m.Reserve = m.reservation == tieredReservation },
			help:  "with MemoryQoS, TieredReservation protects the memory that containers request from reclaim (default None)",
		},
	}
}

func (m *Memory) readSwap(n node) bool {
	fields, ok := n.object("{swapBehavior: LimitedSwap}", "swapBehavior")
	behavior, set := fields["swapBehavior"]
	if !ok || !set || behavior.value == "" {
		return false
	}
	if behavior.value != noSwap && behavior.value != limitedSwap {
		behavior.fail("%v is not a valid behaviour; use %s or %s", behavior.value, noSwap, limitedSwap)
	}
	m.LimitedSwap = behavior.value == limitedSwap
	return true
}

// readGates honours MemoryQoS. podstead has no other feature gates.
func (m *Memory) readGates(n node) bool {
	gates, ok := n.entries("{MemoryQoS: true}")
	for _, gate := range gates {
		switch on, valid := gate.boolean(); {
		case !valid:
			ok = false
		case gate.name(n) == "MemoryQoS":
			m.QoS = on
		default:
			gate.ignore()
		}
	}
	return ok
}

// check rejects settings of memory QoS that would have no effect, as the kubelet does. The
// default of the throttling factor is no such setting: kubeadm writes it.
func (m *Memory) check(t *table) {
	if m.QoS || !t.sound(&m.QoS) {
		return
	}
	const remedy = "has an effect only with memory QoS; set featureGates: {MemoryQoS: true} too, or remove the field"
	if m.Reserve {
		t.fail("%s: %s "+remedy, t.at(&m.reservation), m.reservation)
	}
	if m.Throttling != defaultThrottling {
		t.fail("%s: %v "+remedy, t.at(&m.Throttling), m.Throttling)
	}
}

// checkHost validates that this host can honour the settings. root is that of Cgroups.check.
func (m *Memory) checkHost(t *table, root string) {
	if !m.LimitedSwap && !m.QoS {
		return
	}
	r, err := cgroup.OpenReader(filepath.Join(cmp.Or(root, "/"), "proc/self/mountinfo"))
	if err != nil {
		return // the host has no cgroups at all, which podstead check reports
	}
	const boot = "boot with systemd.unified_cgroup_hierarchy=1"
	switch {
	case m.LimitedSwap && !r.V2():
		t.fail("%s: LimitedSwap is not supported on this node: it needs cgroup v2; set swapBehavior to NoSwap, or "+boot,
			t.at(&m.LimitedSwap))
	case m.LimitedSwap && !r.SwapLimit():
		t.fail("%s: LimitedSwap is not supported on this node: its kernel cannot limit the swap of a cgroup, there is no "+
			"memory.swap.max; set swapBehavior to NoSwap, or boot with swapaccount=1", t.at(&m.LimitedSwap))
	}
	if m.QoS && !r.V2() {
		t.fail("%s: MemoryQoS is not supported on this node: it needs cgroup v2; remove it, or "+boot, t.at(&m.QoS))
	}
}
