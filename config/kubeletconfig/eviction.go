package kubeletconfig

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Eviction are the fields about node-pressure eviction.
type Eviction struct {
	// The maps are by signal, nil if not set.
	Hard, Soft, SoftGracePeriod, MinimumReclaim map[string]string
	// MergeDefaults keeps the default thresholds of signals that Hard does not set.
	MergeDefaults *bool
	// TransitionPeriod is nil if not set or zero, as in the kubelet.
	TransitionPeriod *time.Duration
	// MaxPodGracePeriod is in seconds.
	MaxPodGracePeriod *int
}

// evictionFields are the fields of Eviction.
var evictionFields = map[string]func(*parser, string, any){
	"evictionHard":                 func(p *parser, n string, v any) { p.signals(n, v, &p.cfg.Eviction.Hard) },
	"evictionSoft":                 func(p *parser, n string, v any) { p.signals(n, v, &p.cfg.Eviction.Soft) },
	"evictionSoftGracePeriod":      func(p *parser, n string, v any) { p.signals(n, v, &p.cfg.Eviction.SoftGracePeriod) },
	"evictionMinimumReclaim":       func(p *parser, n string, v any) { p.signals(n, v, &p.cfg.Eviction.MinimumReclaim) },
	"mergeDefaultEvictionSettings": func(p *parser, n string, v any) { p.boolean(n, v, &p.cfg.Eviction.MergeDefaults) },
	"evictionPressureTransitionPeriod": func(p *parser, n string, v any) {
		p.duration(n, v, &p.cfg.Eviction.TransitionPeriod)
	},
	"evictionMaxPodGracePeriod": func(p *parser, n string, v any) {
		p.number(n, v, 0, math.MaxInt32, &p.cfg.Eviction.MaxPodGracePeriod)
	},
}

// signals parses a map of signal to amount. The caller of this package validates the amounts.
// Signals of containerfs are ignored: the writable layers of containers are on the image
// file system or on the node's, and the kubelet uses their thresholds too.
func (p *parser) signals(name string, v any, to *map[string]string) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "must be a map of signal to amount, such as {memory.available: 100Mi}")
		return
	}
	*to = map[string]string{}
	for _, key := range sortedKeys(m) {
		if strings.HasPrefix(key, "containerfs.") {
			p.cfg.Ignored = append(p.cfg.Ignored, name+"."+key)
			continue
		}
		switch m[key].(type) {
		case string, float64:
			(*to)[key] = fmt.Sprint(m[key])
		default:
			p.fail(name+"."+key, "%v is not a string; quote it, such as \"100Mi\"", m[key])
		}
	}
}
