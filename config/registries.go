package config

import "strings"

// Registries are the settings of what podstead itself reads from registries. Pulls are
// the runtime's and follow its settings.
type Registries struct {
	// CAFile is empty for the system's certificate authorities alone.
	CAFile string
	// PlainHTTP are hosts with their ports.
	PlainHTTP []string
}

func (r *Registries) check(s *setting) {
	for _, host := range r.PlainHTTP {
		if host == "" || strings.ContainsAny(host, "/@?# ") {
			s.fail(": %q must be the host of a registry, with its port, such as registry.local:5000", host)
		}
	}
}
