package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Exporter serves scrapes.
type Exporter struct {
	sources Sources
	kubelet *prometheus.Registry
	probes  *prometheus.Registry
	faults  faultLog
}

// New creates an exporter of the counters and the sources.
func New(counters *Counters, sources Sources) *Exporter {
	if ask := sources.SandboxImage; ask != nil {
		var known atomic.Pointer[string]
		sources.SandboxImage = func(ctx context.Context) (string, error) {
			if image := known.Load(); image != nil {
				return *image, nil
			}
			image, err := ask(ctx)
			if err == nil {
				known.Store(&image)
			}
			return image, err
		}
	}
	e := &Exporter{sources: sources, kubelet: prometheus.NewRegistry(), probes: prometheus.NewRegistry(),
		faults: faultLog{log: sources.Log}}
	e.kubelet.MustRegister(counters.all()...)
	e.kubelet.MustRegister(collectorFunc(e.sources.kubelet), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e.probes.MustRegister(collectorFunc(e.sources.probes))
	return e
}

// handler serves scrapes of a gatherer. Metrics that cannot be collected are left out and
// logged; they do not hide the others, as at the kubelet. The number of concurrent scrapes
// of a handler is limited: each takes memory.
func (e *Exporter) handler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{MaxRequestsInFlight: 4, ErrorHandling: promhttp.ContinueOnError,
		ErrorLog: &e.faults})
}

// faultLog logs the errors of scrapes, the same ones only once.
type faultLog struct {
	log  *slog.Logger
	mu   sync.Mutex
	last string
}

// Println implements promhttp.Logger.
func (l *faultLog) Println(v ...any) {
	text := strings.TrimSpace(fmt.Sprintln(v...))
	l.mu.Lock()
	defer l.mu.Unlock()
	if text == l.last || l.log == nil {
		return
	}
	l.last = text
	l.log.Warn("Some metrics are missing", "err", text)
}

// Kubelet serves /metrics.
func (e *Exporter) Kubelet() http.HandlerFunc { return e.handler(e.kubelet).ServeHTTP }

// Probes serves /metrics/probes.
func (e *Exporter) Probes() http.HandlerFunc { return e.handler(e.probes).ServeHTTP }

// Resource serves /metrics/resource. A failure is reported in resource_scrape_error.
func (e *Exporter) Resource() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e.serve(w, r, e.sources.resource(r.Context()))
	}
}

// Cadvisor serves /metrics/cadvisor. A failure is reported in container_scrape_error.
func (e *Exporter) Cadvisor() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e.serve(w, r, collectorFunc(e.sources.cadvisor(r.Context()).collect))
	}
}

// serve writes what was measured for this request.
func (e *Exporter) serve(w http.ResponseWriter, r *http.Request, c prometheus.Collector) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	e.handler(registry).ServeHTTP(w, r)
}
