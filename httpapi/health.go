package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// HealthChecker checks the sync loop.
type HealthChecker interface {
	// SyncLoopHealthy returns an error if the loop does not make progress. It is healthy
	// while the runtime is down.
	SyncLoopHealthy() error
}

// healthz answers "ok", or 500 with the error. With a nil checker it only proves that the
// server answers. With ?verbose it also says how long ago each source of manifests was read,
// which is never an error: pods do not depend on it.
func healthz(h HealthChecker, manifests ManifestLister) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if h != nil {
			if err := h.SyncLoopHealthy(); err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, "sync loop: "+err.Error()+"\n")
				return
			}
		}
		if h != nil && r.URL.Query().Has("verbose") {
			_, _ = io.WriteString(w, "[+]ping ok\n[+]log ok\n[+]syncloop ok\n"+lastReads(manifests, time.Now())+"healthz check passed\n")
			return
		}
		_, _ = io.WriteString(w, "ok")
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
		case source.Time.IsZero():
			fmt.Fprintf(&b, "[+]manifests of source %s not read yet\n", source.Source)
		default:
			fmt.Fprintf(&b, "[+]manifests of source %s read %v ago\n", source.Source, now.Sub(source.Time).Truncate(time.Second))
		}
	}
	return b.String()
}
