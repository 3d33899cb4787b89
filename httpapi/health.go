package httpapi

import (
	"io"
	"net/http"
)

// HealthChecker checks the sync loop.
type HealthChecker interface {
	// SyncLoopHealthy returns an error if the loop does not make progress. It is healthy
	// while the runtime is down.
	SyncLoopHealthy() error
}

// healthz answers "ok", or 500 with the error. With a nil checker it only proves that the
// server answers.
func healthz(h HealthChecker) http.HandlerFunc {
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
			_, _ = io.WriteString(w, "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n")
			return
		}
		_, _ = io.WriteString(w, "ok")
	}
}
