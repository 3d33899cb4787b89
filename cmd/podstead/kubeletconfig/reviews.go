package kubeletconfig

import (
	"time"
)

// Reviews are the fields about what an API server is asked of those who ask at
// the port.
type Reviews struct {
	Tokens   *bool
	TokenTTL *time.Duration
	// Mode is AlwaysAllow or Webhook; empty if not set.
	Mode                  string
	AllowedTTL, DeniedTTL *time.Duration
}

// authentication says who is known. Nobody is let in unknown.
func (p *parser) authentication(name string, v any) {
	all := p.fields(name, v, "x509", "webhook", "anonymous")
	for _, key := range sortedKeys(all) {
		at, v := name+"."+key, all[key]
		switch key {
		case "x509":
			for sub, v := range p.fields(at, v, "clientCAFile") {
				p.path(at+"."+sub, v, &p.cfg.Remote.ClientCAFile)
			}
		case "webhook":
			for sub, v := range p.fields(at, v, "enabled", "cacheTTL") {
				if sub == "enabled" {
					p.truth(at+"."+sub, v, &p.cfg.Remote.Reviews.Tokens)
				} else {
					p.duration(at+"."+sub, v, &p.cfg.Remote.Reviews.TokenTTL)
				}
			}
		case "anonymous":
			var asked *bool
			for sub, v := range p.fields(at, v, "enabled") {
				p.truth(at+"."+sub, v, &asked)
			}
			if asked != nil && *asked {
				p.cfg.Ignored = append(p.cfg.Ignored, at+".enabled")
			}
		}
	}
}

// authorization says who may do what. AlwaysAllow, which a standalone kubelet
// needs, opens nothing here.
func (p *parser) authorization(name string, v any) {
	all := p.fields(name, v, "mode", "webhook")
	for _, key := range sortedKeys(all) {
		at, v := name+"."+key, all[key]
		if key == "mode" {
			p.text(at, v, &p.cfg.Remote.Reviews.Mode)
			if mode := p.cfg.Remote.Reviews.Mode; mode != "" && mode != "AlwaysAllow" && mode != "Webhook" {
				p.fail(at, "%q: must be AlwaysAllow or Webhook", mode)
			}
			continue
		}
		for sub, v := range p.fields(at, v, "cacheAuthorizedTTL", "cacheUnauthorizedTTL") {
			if sub == "cacheAuthorizedTTL" {
				p.duration(at+"."+sub, v, &p.cfg.Remote.Reviews.AllowedTTL)
			} else {
				p.duration(at+"."+sub, v, &p.cfg.Remote.Reviews.DeniedTTL)
			}
		}
	}
}
