package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Exporter serves scrapes.
type Exporter struct {
	sources Sources
	kubelet *prometheus.Registry
	probes  *prometheus.Registry
}

// New creates an exporter of the counters and the sources.
func New(counters *Counters, sources Sources) *Exporter {
	e := &Exporter{sources: sources, kubelet: prometheus.NewRegistry(), probes: prometheus.NewRegistry()}
	e.kubelet.MustRegister(counters.all()...)
	e.kubelet.MustRegister(collectorFunc(e.sources.kubelet), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e.probes.MustRegister(collectorFunc(e.sources.probes))
	return e
}

// options limit the number of concurrent scrapes: each takes memory.
var options = promhttp.HandlerOpts{MaxRequestsInFlight: 4}

// Kubelet serves /metrics.
func (e *Exporter) Kubelet() http.HandlerFunc {
	return promhttp.HandlerFor(e.kubelet, options).ServeHTTP
}

// Probes serves /metrics/probes.
func (e *Exporter) Probes() http.HandlerFunc {
	return promhttp.HandlerFor(e.probes, options).ServeHTTP
}

// Resource serves /metrics/resource. A failure is reported in resource_scrape_error.
func (e *Exporter) Resource() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, e.sources.resource(r.Context()))
	}
}

// Cadvisor serves /metrics/cadvisor.
func (e *Exporter) Cadvisor() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := e.sources.cadvisor(r.Context())
		if err != nil {
			http.Error(w, "failed to measure: "+err.Error(), http.StatusInternalServerError)
			return
		}
		serve(w, r, data)
	}
}

// serve writes what was measured for this request.
func serve(w http.ResponseWriter, r *http.Request, c prometheus.Collector) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}
