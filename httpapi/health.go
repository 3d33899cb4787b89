package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/podstead/podstead/httpapi/access"
)

// HealthCheck is one check of /healthz, /livez and /readyz. Its path is /healthz/NAME.
type HealthCheck struct {
	Name string
	// Check returns why the daemon is not healthy, nil if it is. It does not wait.
	Check func() error
}

// ping only proves that the server responds.
var ping = HealthCheck{"ping", func() error { return nil }}

// healthz serves a path such as /healthz with "ok", or 500 with the errors. With ?verbose it lists the result of each
// check in the kubelet's format, and how long ago each source of manifests was read, and why it
// cannot be, which is never an error: pods do not depend on it. manifests may be nil.
func healthz(name string, manifests ManifestLister, checks ...HealthCheck) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var list, failed strings.Builder
		for _, c := range checks {
			if err := c.Check(); err != nil {
				fmt.Fprintf(&list, "[-]%s failed: %v\n", c.Name, err)
				fmt.Fprintf(&failed, "%s: %v\n", c.Name, err)
			} else {
				fmt.Fprintf(&list, "[+]%s ok\n", c.Name)
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		text, result := "ok", "passed"
		if failed.Len() > 0 {
			w.WriteHeader(http.StatusInternalServerError)
			text, result = failed.String(), "failed"
		}
		if r.URL.Query().Has("verbose") {
			text = list.String() + lastReads(manifests, time.Now()) + name + " check " + result + "\n"
		}
		_, _ = w.Write([]byte(text)) // a client that has disconnected needs no response
	}
}

// lastReads returns a line for each source of manifests.
func lastReads(manifests ManifestLister, now time.Time) string {
	if manifests == nil {
		return ""
	}
	var b strings.Builder
	for _, source := range manifests.Manifests() {
		switch {
		case source.Source == "api": // it is watched, not read
			continue
		case source.Time.IsZero():
			fmt.Fprintf(&b, "[+]manifests of source %s not read yet", source.Source)
		default:
			fmt.Fprintf(&b, "[+]manifests of source %s read %v ago", source.Source, now.Sub(source.Time).Truncate(time.Second))
		}
		if source.Fault != "" {
			fmt.Fprintf(&b, ": %s", source.Fault)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// healthRoutes returns /healthz, which runs all checks, and a path for each of them; and the same
// below /livez and /readyz, which are what clients of an API server ask. There is no state in
// which the daemon is alive and does not serve its API.
func healthRoutes(manifests ManifestLister, checks []HealthCheck) []Route {
	checks = append([]HealthCheck{ping}, checks...)
	var routes []Route
	for _, name := range []string{"healthz", "livez", "readyz"} {
		routes = append(routes, Route{"GET", "/" + name, access.Health, healthz(name, manifests, checks...)})
		for _, c := range checks {
			routes = append(routes, Route{"GET", "/" + name + "/" + c.Name, access.Health, healthz(name, nil, c)})
		}
	}
	return routes
}
