package httpapi

import (
	"io"
	"net/http"
)

// HealthChecker says whether the sync loop turns.
type HealthChecker interface {
	// SyncLoopHealthy is nil while the loop turns, else what is wrong. A
	// runtime that is down is not an unhealthy loop.
	SyncLoopHealthy() error
}

// healthz answers "ok", or 500 with the fault. A nil checker is always well:
// that the answer came is the proof.
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
