package kubeletconfig

import (
	"fmt"
	"math"
	"time"
)

// Shutdown are the fields about the end of pods before the host goes down.
type Shutdown struct {
	// GracePeriod and CriticalPods are nil if not set; zero asks for none.
	GracePeriod, CriticalPods *time.Duration
	// ByPodPriority is nil if not set.
	ByPodPriority []ShutdownGroup
}

// ShutdownGroup is the period of pods of a priority and more.
type ShutdownGroup struct {
	Priority int
	Period   time.Duration
}

// The fields of Shutdown.
var honouredShutdown = map[string]func(*parser, string, any){
	"shutdownGracePeriod":              func(p *parser, n string, v any) { p.durationOrZero(n, v, &p.cfg.Shutdown.GracePeriod) },
	"shutdownGracePeriodCriticalPods":  func(p *parser, n string, v any) { p.durationOrZero(n, v, &p.cfg.Shutdown.CriticalPods) },
	"shutdownGracePeriodByPodPriority": (*parser).shutdownGroups,
}

// durationOrZero is duration where zero does not ask for the default.
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
		p.fail(name, "want a list, such as [{priority: 1000, shutdownGracePeriodSeconds: 20}]")
		return
	}
	p.cfg.Shutdown.ByPodPriority = []ShutdownGroup{}
	for i, e := range list {
		at := fmt.Sprintf("%s[%d]", name, i)
		m, ok := e.(map[string]any)
		if !ok {
			p.fail(at, "want priority and shutdownGracePeriodSeconds")
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
