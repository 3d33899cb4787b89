package kubeletconfig

import (
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Node are the fields about the node's object in a cluster.
type Node struct {
	Register *bool
	// Taints is nil if not set.
	Taints                     []v1.Taint
	ProviderID                 string
	StatusUpdate, StatusReport *time.Duration
	LeaseSeconds, Images       *int
}

// nodeFields are the fields of Node.
var nodeFields = map[string]func(*parser, string, any){
	"registerNode":              func(p *parser, n string, v any) { p.boolean(n, v, &p.cfg.Node.Register) },
	"registerWithTaints":        (*parser).taints,
	"providerID":                func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Node.ProviderID) },
	"nodeStatusUpdateFrequency": func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.Node.StatusUpdate) },
	"nodeStatusReportFrequency": func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.Node.StatusReport) },
	"nodeLeaseDurationSeconds":  (*parser).leaseSeconds,
	"nodeStatusMaxImages":       func(p *parser, n string, v any) { p.number(n, v, -1, math.MaxInt32, &p.cfg.Node.Images) },
}

// leaseSeconds parses nodeLeaseDurationSeconds. Zero means the default, as in the kubelet's
// defaulting.
func (p *parser) leaseSeconds(name string, v any) {
	if v == 0.0 {
		return
	}
	p.number(name, v, 4, math.MaxInt32, &p.cfg.Node.LeaseSeconds)
}

func (p *parser) taints(name string, v any) {
	list, ok := v.([]any)
	if !ok {
		p.fail(name, "%v is not a list", v)
		return
	}
	p.cfg.Node.Taints = []v1.Taint{}
	for i, e := range list {
		at := fmt.Sprintf("%s[%d]", name, i)
		fields := p.mapFields(at, e, "key", "value", "effect", "timeAdded")
		if _, ok := fields["timeAdded"]; ok {
			p.cfg.Ignored = append(p.cfg.Ignored, at+".timeAdded")
		}
		var t v1.Taint
		for field, to := range map[string]*string{"key": &t.Key, "value": &t.Value, "effect": (*string)(&t.Effect)} {
			if v, ok := fields[field]; ok {
				p.text(at+"."+field, v, to)
			}
		}
		p.cfg.Node.Taints = append(p.cfg.Node.Taints, t)
	}
}
