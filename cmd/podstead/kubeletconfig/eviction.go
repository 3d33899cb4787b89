package kubeletconfig

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Eviction are the fields about what is ended when the Eviction threshold met.
type Eviction struct {
	// The maps are by signal and nil if not set.
	Hard, Soft, SoftGracePeriod, MinimumReclaim map[string]string
	// MergeDefaults: defaults hold for signals that Hard does not name.
	MergeDefaults *bool
	// TransitionPeriod is nil if not set, or zero, as the kubelet has it.
	TransitionPeriod *time.Duration
	// MaxPodGracePeriod is in seconds.
	MaxPodGracePeriod *int
}

// The fields of Eviction.
var honouredEviction = map[string]func(*parser, string, any){
	"evictionHard":                 func(p *parser, n string, v any) { p.signals(n, v, &p.cfg.Eviction.Hard) },
	"evictionSoft":                 func(p *parser, n string, v any) { p.signals(n, v, &p.cfg.Eviction.Soft) },
	"evictionSoftGracePeriod":      func(p *parser, n string, v any) { p.signals(n, v, &p.cfg.Eviction.SoftGracePeriod) },
	"evictionMinimumReclaim":       func(p *parser, n string, v any) { p.signals(n, v, &p.cfg.Eviction.MinimumReclaim) },
	"mergeDefaultEvictionSettings": func(p *parser, n string, v any) { p.truth(n, v, &p.cfg.Eviction.MergeDefaults) },
	"evictionPressureTransitionPeriod": func(p *parser, n string, v any) {
		p.duration(n, v, &p.cfg.Eviction.TransitionPeriod)
	},
	"evictionMaxPodGracePeriod": func(p *parser, n string, v any) {
		p.number(n, v, 0, math.MaxInt32, &p.cfg.Eviction.MaxPodGracePeriod)
	},
}

// signals takes a map of signal to text, which is judged by who uses it. What a
// file says of containerfs is named as not honoured: where containers write is
// with the images or on the node's file system, and the kubelet, too, goes by
// those.
func (p *parser) signals(name string, v any, to *map[string]string) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "want a map of signal to amount, such as {memory.available: 100Mi}")
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
			p.fail(name+"."+key, "%v is no text; put it in quotes, such as \"100Mi\"", m[key])
		}
	}
}
