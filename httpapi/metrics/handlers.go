package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Exporter answers scrapes.
type Exporter struct {
	sources Sources
	kubelet *prometheus.Registry
	probes  *prometheus.Registry
}

// New makes an exporter of the counters and the sources.
func New(counters *Counters, sources Sources) *Exporter {
	e := &Exporter{sources: sources, kubelet: prometheus.NewRegistry(), probes: prometheus.NewRegistry()}
	e.kubelet.MustRegister(counters.all()...)
	e.kubelet.MustRegister(collected(e.sources.kubelet), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e.probes.MustRegister(collected(e.sources.probes))
	return e
}

// options bound how many scrapes are answered at once: each costs memory.
var options = promhttp.HandlerOpts{MaxRequestsInFlight: 4}

// Kubelet answers /metrics.
func (e *Exporter) Kubelet() http.HandlerFunc {
	return promhttp.HandlerFor(e.kubelet, options).ServeHTTP
}

// Probes answers /metrics/probes.
func (e *Exporter) Probes() http.HandlerFunc {
	return promhttp.HandlerFor(e.probes, options).ServeHTTP
}

// Resource answers /metrics/resource. What fails is told in the answer.
func (e *Exporter) Resource() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, e.sources.resource(r.Context()))
	}
}

// Cadvisor answers /metrics/cadvisor.
func (e *Exporter) Cadvisor() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := e.sources.cadvisor(r.Context())
		if err != nil {
			http.Error(w, "cannot measure: "+err.Error(), http.StatusInternalServerError)
			return
		}
		serve(w, r, data)
	}
}

// serve answers with what was measured for this request.
func serve(w http.ResponseWriter, r *http.Request, c prometheus.Collector) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}
