package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/kubeapi"
)

// StatsReader tells what the node and the pods use.
type StatsReader interface {
	// Summary is the node and the pods in the form of the kubelet's, of
	// processors and memory only if that is all that is wanted.
	Summary(ctx context.Context, onlyCPUAndMemory bool) (any, error)
}

// Metrics are the handlers of what Prometheus scrapes, under the kubelet's paths.
type Metrics struct{ Kubelet, Resource, Probes, Cadvisor http.HandlerFunc }

// statsRoutes are the rows of the table that tell what is used.
func statsRoutes(src Sources) []Route {
	const group = "/apis/metrics.k8s.io/v1beta1/"
	nodes, pods := kubeapi.UsageHandler(src.Usage, "nodes"), kubeapi.UsageHandler(src.Usage, "pods")
	return []Route{
		{"GET", "/metrics", access.Metrics, src.Metrics.Kubelet},
		{"GET", "/metrics/resource", access.Metrics, src.Metrics.Resource},
		{"GET", "/metrics/probes", access.Metrics, src.Metrics.Probes},
		{"GET", "/metrics/cadvisor", access.Metrics, src.Metrics.Cadvisor},
		{"GET", "/stats/summary", access.Metrics, statsSummary(src.Stats)},
		{"GET", group + "nodes", access.Metrics, nodes},
		{"GET", group + "nodes/{name}", access.Metrics, nodes},
		{"GET", group + "pods", access.Metrics, pods},
		{"GET", group + "namespaces/{namespace}/pods", access.Metrics, pods},
		{"GET", group + "namespaces/{namespace}/pods/{name}", access.Metrics, pods},
	}
}

// statsSummary answers as the kubelet does.
func statsSummary(s StatsReader) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		only := false
		if text := r.URL.Query().Get("only_cpu_and_memory"); text != "" {
			var err error
			if only, err = strconv.ParseBool(text); err != nil {
				http.Error(w, "only_cpu_and_memory is "+strconv.Quote(text)+"; must be true or false", http.StatusBadRequest)
				return
			}
		}
		answer, err := s.Summary(r.Context(), only)
		if err != nil {
			http.Error(w, "cannot measure: "+err.Error(), http.StatusInternalServerError)
			return
		}
		writeJSON(w, answer)
	}
}
