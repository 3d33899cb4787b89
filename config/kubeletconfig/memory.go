package kubeletconfig

// The values of memorySwap.swapBehavior and memoryReservationPolicy.
const (
	NoSwap            = "NoSwap"
	LimitedSwap       = "LimitedSwap"
	TieredReservation = "TieredReservation"
	noReservation     = "None"
)

// gateMemoryQoS is the only feature gate that has an effect.
const gateMemoryQoS = "MemoryQoS"

// Memory are the fields about swap and memory QoS.
type Memory struct {
	// Swap is memorySwap.swapBehavior, empty if not set.
	Swap string
	// QoS is featureGates.MemoryQoS.
	QoS bool
	// Throttling is memoryThrottlingFactor, nil if not set.
	Throttling *float64
	// Reservation is memoryReservationPolicy, empty if not set.
	Reservation string
}

// memoryFields are the fields of Memory.
var memoryFields = map[string]func(*parser, string, any){
	"memorySwap":              (*parser).swap,
	"featureGates":            (*parser).featureGates,
	"memoryThrottlingFactor":  (*parser).throttling,
	"memoryReservationPolicy": (*parser).reservation,
}

func (p *parser) swap(name string, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "%v is not a map", v)
		return
	}
	for _, key := range sortedKeys(m) {
		switch {
		case key != "swapBehavior":
			p.fail(name+"."+key, "unknown field; did you mean swapBehavior?")
		case m[key] != "" && m[key] != NoSwap && m[key] != LimitedSwap:
			p.fail(name+"."+key, "%v is not a valid behaviour; use %s or %s", m[key], NoSwap, LimitedSwap)
		default:
			p.text(name+"."+key, m[key], &p.cfg.Memory.Swap)
		}
	}
}

// featureGates honours MemoryQoS. podstead has no other feature gates.
func (p *parser) featureGates(name string, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "%v is not a map", v)
		return
	}
	for _, key := range sortedKeys(m) {
		on, ok := m[key].(bool)
		switch {
		case !ok:
			p.fail(name+"."+key, "%v is not a boolean", m[key])
		case key == gateMemoryQoS:
			p.cfg.Memory.QoS = on
		default:
			p.cfg.Ignored = append(p.cfg.Ignored, name+"."+key)
		}
	}
}

func (p *parser) throttling(name string, v any) {
	factor, ok := v.(float64)
	if !ok || factor <= 0 || factor > 1 {
		p.fail(name, "%v must be a number above 0, and at most 1", v)
		return
	}
	p.cfg.Memory.Throttling = &factor
}

func (p *parser) reservation(name string, v any) {
	p.text(name, v, &p.cfg.Memory.Reservation)
	if r := p.cfg.Memory.Reservation; r != "" && r != noReservation && r != TieredReservation {
		p.fail(name, "%v is not a policy; use %s or %s", v, noReservation, TieredReservation)
	}
}

// checkMemory rejects settings of memory QoS that would have no effect, as the kubelet does. The
// default of the throttling factor is no such setting: kubeadm writes it.
func (p *parser) checkMemory() {
	m := &p.cfg.Memory
	if m.QoS {
		return
	}
	const remedy = "has an effect only with memory QoS; set featureGates: {MemoryQoS: true} too, or remove the field"
	if m.Reservation == TieredReservation {
		p.fail("memoryReservationPolicy", "%s "+remedy, m.Reservation)
	}
	if m.Throttling != nil && *m.Throttling != DefaultThrottling {
		p.fail("memoryThrottlingFactor", "%v "+remedy, *m.Throttling)
	}
}

// DefaultThrottling is the default of memoryThrottlingFactor.
const DefaultThrottling = 0.9
