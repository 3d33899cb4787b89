package config

import (
	"net/http"
	"net/url"
	"strings"
)

// RuntimeDefaults are the settings in force that the runtime or its client decides.
type RuntimeDefaults struct {
	// CgroupDriver is the driver in use; empty if it is not known yet.
	CgroupDriver string
	// ParallelPulls is the number of pulls at once without a setting.
	ParallelPulls int
}

// KubeletConfiguration returns the settings in force in the fields of that document, for
// clients that request /configz of a kubelet. Used as --config, with the same flags, it
// means the same. Secrets are masked; a masked value is an error in a file.
func (o *Options) KubeletConfiguration(from RuntimeDefaults) map[string]any {
	all := map[string]any{"apiVersion": kubeletKind.APIVersion, "kind": kubeletKind.Kind}
	addFixed(all)
	for _, s := range o.table.rows {
		var v any
		switch {
		case s.field == "":
			continue
		case s.shown != nil:
			v = s.shown(from)
		case !s.cluster || o.joins():
			v = s.value.get()
		}
		if v != nil {
			putField(all, s.field, v)
		}
	}
	return all
}

// putField sets the field at a path.
func putField(to map[string]any, path string, value any) {
	for {
		name, rest, nested := strings.Cut(path, ".")
		if !nested {
			to[name] = value
			return
		}
		below, ok := to[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			to[name] = below
		}
		to, path = below, rest
	}
}

// masked stands for a secret in the configuration that a daemon reports.
const masked = "<masked>"

// isMasked reports whether a value has masked secrets instead of the real ones.
func isMasked(value string) bool {
	return strings.Contains(value, masked) || strings.Contains(value, url.QueryEscape(masked))
}

// maskURL masks the parts of a URL that may be secret.
func maskURL(text string) any {
	u, err := url.Parse(text)
	if err != nil || text == "" {
		return nil
	}
	if u.User != nil {
		u.User = url.User(masked)
	}
	if u.RawQuery != "" {
		u.RawQuery = url.QueryEscape(masked)
	}
	return u.String()
}

func maskHeader(h http.Header) any {
	if len(h) == 0 {
		return nil
	}
	hidden := map[string][]string{}
	for name := range h {
		hidden[name] = []string{masked}
	}
	return hidden
}

// inCluster returns a value that is shown only on a node of a cluster.
func (o *Options) inCluster(get func() any) func(RuntimeDefaults) any {
	return func(RuntimeDefaults) any {
		if !o.joins() {
			return nil
		}
		return get()
	}
}

// orNone returns nil for an empty text, which is a field that is not set.
func orNone(text string) any {
	if text == "" {
		return nil
	}
	return text
}
