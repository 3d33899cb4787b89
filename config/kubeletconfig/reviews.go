package kubeletconfig

import (
	"time"
)

// Reviews are the fields about authentication and authorization of clients by the API server.
type Reviews struct {
	Tokens   *bool
	TokenTTL *time.Duration
	// Mode is AlwaysAllow or Webhook; empty if not set.
	Mode                  string
	AllowedTTL, DeniedTTL *time.Duration
}

// authentication parses authentication. Anonymous access is not supported.
func (p *parser) authentication(name string, v any) {
	all := p.mapFields(name, v, "x509", "webhook", "anonymous")
	for _, key := range sortedKeys(all) {
		path, v := name+"."+key, all[key]
		switch key {
		case "x509":
			for sub, v := range p.mapFields(path, v, "clientCAFile") {
				p.path(path+"."+sub, v, &p.cfg.Remote.ClientCAFile)
			}
		case "webhook":
			for sub, v := range p.mapFields(path, v, "enabled", "cacheTTL") {
				if sub == "enabled" {
					p.boolean(path+"."+sub, v, &p.cfg.Remote.Reviews.Tokens)
				} else {
					p.duration(path+"."+sub, v, &p.cfg.Remote.Reviews.TokenTTL)
				}
			}
		case "anonymous":
			var enabled *bool
			for sub, v := range p.mapFields(path, v, "enabled") {
				p.boolean(path+"."+sub, v, &enabled)
			}
			if enabled != nil && *enabled {
				p.cfg.Ignored = append(p.cfg.Ignored, path+".enabled")
			}
		}
	}
}

// authorization parses authorization. AlwaysAllow, which a standalone kubelet requires, grants
// nothing here.
func (p *parser) authorization(name string, v any) {
	all := p.mapFields(name, v, "mode", "webhook")
	for _, key := range sortedKeys(all) {
		path, v := name+"."+key, all[key]
		if key == "mode" {
			p.text(path, v, &p.cfg.Remote.Reviews.Mode)
			if mode := p.cfg.Remote.Reviews.Mode; mode != "" && mode != "AlwaysAllow" && mode != "Webhook" {
				p.fail(path, "%q: must be AlwaysAllow or Webhook", mode)
			}
			continue
		}
		for sub, v := range p.mapFields(path, v, "cacheAuthorizedTTL", "cacheUnauthorizedTTL") {
			if sub == "cacheAuthorizedTTL" {
				p.duration(path+"."+sub, v, &p.cfg.Remote.Reviews.AllowedTTL)
			} else {
				p.duration(path+"."+sub, v, &p.cfg.Remote.Reviews.DeniedTTL)
			}
		}
	}
}
