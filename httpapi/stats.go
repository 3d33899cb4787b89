package httpapi

import (
	"context"
	"net/http"
	"strconv"
)

// StatsReader returns the resource usage of the node and its pods in the format of the
// kubelet's /stats/summary, if onlyCPUAndMemory is set without disks and networks. The
// result is only encoded as JSON here.
type StatsReader func(ctx context.Context, onlyCPUAndMemory bool) (any, error)

// Metrics are the handlers of the endpoints that Prometheus scrapes.
type Metrics struct{ Kubelet, Resource, Probes, Cadvisor http.HandlerFunc }

// statsSummary serves /stats/summary as the kubelet does.
func statsSummary(read StatsReader) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		only := false
		if text := r.URL.Query().Get("only_cpu_and_memory"); text != "" {
			var err error
			if only, err = strconv.ParseBool(text); err != nil {
				http.Error(w, "only_cpu_and_memory="+strconv.Quote(text)+": must be true or false", http.StatusBadRequest)
				return
			}
		}
		answer, err := read(r.Context(), only)
		if err != nil {
			http.Error(w, "failed to read the resource usage: "+err.Error(), http.StatusInternalServerError)
			return
		}
		writeJSON(w, answer)
	}
}
