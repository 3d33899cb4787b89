package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Registries are the settings of what podstead itself reads from registries. Pulls are
// the runtime's and follow its settings.
type Registries struct {
	// CAFile is empty for the system's certificate authorities alone.
	CAFile string
	// PlainHTTP are hosts with their ports.
	PlainHTTP []string
}

func (r *Registries) addFlags(f *pflag.FlagSet) {
	f.StringVar(&r.CAFile, "registry-ca-file", "", "PEM `file` of certificate authorities of registries that podstead itself reads from, in addition to the system's; image pulls follow the runtime's settings")
	f.StringArrayVar(&r.PlainHTTP, "plain-http-registry", nil, "registry, as `host:port`, that podstead itself reads from without TLS, in addition to those on loopback; image pulls follow the runtime's settings; can be repeated")
}

func (r *Registries) check() error {
	for _, host := range r.PlainHTTP {
		if host == "" || strings.ContainsAny(host, "/@?# ") {
			return fmt.Errorf("--plain-http-registry: %q must be the host of a registry, with its port, such as registry.local:5000", host)
		}
	}
	return nil
}
