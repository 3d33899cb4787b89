package metrics

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
)

// Counters count what happens. Their methods are told of it by the rooms in
// which it does, may be called at the same time, and never block.
type Counters struct {
	calls          *prometheus.CounterVec
	callErrors     *prometheus.CounterVec
	callTime       *prometheus.HistogramVec
	relist, period prometheus.Histogram

	podWork      *prometheus.HistogramVec
	podStart     prometheus.Histogram
	sandboxes    prometheus.Counter
	sandboxTime  prometheus.Histogram
	sandboxFails *prometheus.CounterVec
	starts       *prometheus.CounterVec
	startFails   *prometheus.CounterVec

	evictions, preemptions *prometheus.CounterVec
	displaced              *prometheus.CounterVec
	images                 *prometheus.CounterVec

	requests *prometheus.CounterVec
	answers  *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
}

// The buckets are the kubelet's.
var (
	callBuckets  = prometheus.ExponentialBuckets(.005, 2.5, 14)
	startBuckets = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
)

func counts(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func times(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func timed(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// NewCounters makes counters at 0.
func NewCounters() *Counters {
	return &Counters{
		calls:      counts("kubelet_runtime_operations_total", "Calls of the container runtime.", "operation_type"),
		callErrors: counts("kubelet_runtime_operations_errors_total", "Calls of the container runtime that failed.", "operation_type"),
		callTime:   times("kubelet_runtime_operations_duration_seconds", "What calls of the container runtime took.", callBuckets, "operation_type"),
		relist:     timed("kubelet_pleg_relist_duration_seconds", "What full lists of the pods in the runtime took.", prometheus.DefBuckets),
		period:     timed("kubelet_pleg_relist_interval_seconds", "The time from one full list of the pods in the runtime to the next. It is long where the runtime tells of changes by itself.", append(prometheus.DefBuckets, 30, 60, 90)),

		podWork:      times("kubelet_pod_worker_duration_seconds", "What one turn of a pod's worker took, by what it does: create, sync, kill or cleanup.", prometheus.DefBuckets, "operation_type"),
		podStart:     timed("kubelet_pod_start_duration_seconds", "The time from a pod being taken up until it runs.", startBuckets),
		sandboxes:    prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_started_pods_total", Help: "Pod sandboxes that were asked for."}),
		sandboxTime:  timed("kubelet_run_podsandbox_duration_seconds", "What the making of pod sandboxes took.", callBuckets),
		sandboxFails: counts("kubelet_started_pods_errors_total", "Pod sandboxes that could not be made.", "code"),
		starts:       counts("kubelet_started_containers_total", "Containers that were to be started.", "container_type"),
		startFails:   counts("kubelet_started_containers_errors_total", "Containers that could not be started.", "container_type", "code"),

		evictions:   counts("kubelet_evictions", "Pods that were evicted, by the signal that did it.", "eviction_signal"),
		preemptions: counts("kubelet_preemptions", "Pods that gave way to more important ones, by the resource that was short.", "preemption_signal"),
		displaced:   counts("podstead_displaced_pods_total", "Pods that ended for the node's sake and run again later, by reason.", "reason"),
		images:      counts("kubelet_image_garbage_collected_total", "Images that were removed, because of their age, for space, or by command.", "reason"),

		requests: counts("kubelet_http_requests_total", "Requests to the API.", "method", "path", "server_type", "long_running"),
		answers:  times("kubelet_http_requests_duration_seconds", "What the answers to requests took.", prometheus.DefBuckets, "method", "path", "server_type", "long_running"),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubelet_http_inflight_requests", Help: "Requests that are being answered."}, []string{"method", "path", "server_type", "long_running"}),
	}
}

// all are the collectors to register.
func (c *Counters) all() []prometheus.Collector {
	return []prometheus.Collector{
		c.calls, c.callErrors, c.callTime, c.relist, c.period,
		c.podWork, c.podStart, c.sandboxes, c.sandboxTime, c.sandboxFails, c.starts, c.startFails,
		c.evictions, c.preemptions, c.displaced, c.images, c.requests, c.answers, c.inflight,
	}
}

// Call is told of a call of the runtime by its CRI name.
func (c *Counters) Call(method string, took time.Duration, err error) {
	operation := operationType(method)
	c.calls.WithLabelValues(operation).Inc()
	c.callTime.WithLabelValues(operation).Observe(took.Seconds())
	failed := err != nil && !errors.Is(err, context.Canceled)
	if failed {
		c.callErrors.WithLabelValues(operation).Inc()
	}
	if method != "RunPodSandbox" {
		return
	}
	c.sandboxes.Inc()
	c.sandboxTime.Observe(took.Seconds())
	if failed {
		c.sandboxFails.WithLabelValues("CreatePodSandboxError").Inc()
	}
}

// operationType is a CRI method as the kubelet calls it: run_podsandbox.
func operationType(method string) string {
	switch method {
	case "UpdateContainerResources":
		return "update_container"
	case "RuntimeConfig":
		return "runtime_config"
	}
	var name strings.Builder
	for i, r := range strings.ReplaceAll(method, "PodSandbox", "Podsandbox") {
		if unicode.IsUpper(r) && i > 0 {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

// Relisted is told of a full list.
func (c *Counters) Relisted(took, since time.Duration) {
	c.relist.Observe(took.Seconds())
	if since > 0 {
		c.period.Observe(since.Seconds())
	}
}

// ContainerStarted is told of an attempt to start a container.
func (c *Counters) ContainerStarted(kind, failed string) {
	c.starts.WithLabelValues(kind).Inc()
	if failed != "" {
		c.startFails.WithLabelValues(kind, failed).Inc()
	}
}

// PodWorked implements supervisor.Metrics.
func (c *Counters) PodSynced(operation string, took time.Duration) {
	c.podWork.WithLabelValues(operation).Observe(took.Seconds())
}

// PodStarted implements supervisor.Metrics.
func (c *Counters) PodStarted(took time.Duration) { c.podStart.Observe(took.Seconds()) }

// Reasons for which a pod ends for the node's sake that the kubelet counts too.
const (
	reasonEvicted    = "Evicted"
	reasonPreempting = "Preempting"
)

// PodDisplaced implements supervisor.Metrics.
func (c *Counters) PodDisrupted(reason, signal string) {
	c.displaced.WithLabelValues(reason).Inc()
	switch reason {
	case reasonEvicted:
		c.evictions.WithLabelValues(signal).Inc()
	case reasonPreempting:
		c.preemptions.WithLabelValues(signal).Inc()
	}
}

// ImageRemoved is told of an image that was removed.
func (c *Counters) ImageRemoved(why string) { c.images.WithLabelValues(why).Inc() }

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// serverType is the kubelet's for the listener with all routes.
const serverType = "readwrite"

// Request is told of a request, and gives what is to be called at its end.
func (c *Counters) Request(method, path string, long bool) (done func()) {
	if !slices.Contains(methods, method) {
		method = "other" // whoever asks may invent methods, and each is a series
	}
	running := "false"
	if long {
		running = "true"
	}
	c.requests.WithLabelValues(method, path, serverType, running).Inc()
	inflight := c.inflight.WithLabelValues(method, path, serverType, running)
	inflight.Inc()
	began := time.Now()
	return func() {
		inflight.Dec()
		c.answers.WithLabelValues(method, path, serverType, running).Observe(time.Since(began).Seconds())
	}
}
