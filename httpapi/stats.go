package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/podstead/podstead/httpapi/apistatus"
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
				apistatus.Error(w, r, http.StatusBadRequest, "only_cpu_and_memory=%q: must be true or false", text)
				return
			}
		}
		response, err := read(r.Context(), only)
		if err != nil {
			apistatus.Error(w, r, http.StatusInternalServerError, "failed to read the resource usage: %v", err)
			return
		}
		writeJSON(w, response)
	}
}
