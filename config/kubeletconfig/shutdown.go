package kubeletconfig

import (
	"fmt"
	"math"
	"time"
)

// Shutdown are the fields about graceful node shutdown.
type Shutdown struct {
	// GracePeriod and CriticalPods are nil if not set; zero disables them.
	GracePeriod, CriticalPods *time.Duration
	// ByPodPriority is nil if not set.
	ByPodPriority []ShutdownGroup
}

// ShutdownGroup is the grace period of pods with a minimum priority.
type ShutdownGroup struct {
	Priority int
	Period   time.Duration
}

// shutdownFields are the fields of Shutdown.
var shutdownFields = map[string]func(*parser, string, any){
	"shutdownGracePeriod":              func(p *parser, n string, v any) { p.durationOrZero(n, v, &p.cfg.Shutdown.GracePeriod) },
	"shutdownGracePeriodCriticalPods":  func(p *parser, n string, v any) { p.durationOrZero(n, v, &p.cfg.Shutdown.CriticalPods) },
	"shutdownGracePeriodByPodPriority": (*parser).shutdownGroups,
}

// durationOrZero is like duration, but zero does not mean the default.
func (p *parser) durationOrZero(name string, v any, to **time.Duration) {
	before := len(p.errs)
	p.duration(name, v, to)
	if *to == nil && len(p.errs) == before {
		*to = new(time.Duration)
	}
}

func (p *parser) shutdownGroups(name string, v any) {
	list, ok := v.([]any)
	if !ok {
		p.fail(name, "must be a list, such as [{priority: 1000, shutdownGracePeriodSeconds: 20}]")
		return
	}
	p.cfg.Shutdown.ByPodPriority = []ShutdownGroup{}
	for i, e := range list {
		at := fmt.Sprintf("%s[%d]", name, i)
		m, ok := e.(map[string]any)
		if !ok {
			p.fail(at, "must have priority and shutdownGracePeriodSeconds")
			continue
		}
		priority, seconds := new(int), new(int)
		for _, key := range sortedKeys(m) {
			switch key {
			case "priority":
				p.number(at+"."+key, m[key], math.MinInt32, math.MaxInt32, &priority)
			case "shutdownGracePeriodSeconds":
				p.number(at+"."+key, m[key], 0, math.MaxInt32, &seconds)
			default:
				p.fail(at+"."+key, "unknown field; did you mean priority or shutdownGracePeriodSeconds?")
			}
		}
		p.cfg.Shutdown.ByPodPriority = append(p.cfg.Shutdown.ByPodPriority, ShutdownGroup{*priority, time.Duration(*seconds) * time.Second})
	}
}
