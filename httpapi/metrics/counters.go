package metrics

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
)

// Counters counts events. The packages in which they happen call its methods, which
// may run concurrently and never block. It has one field per metric.
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
	// userPods and userPodFails count pods with user namespaces.
	userPods, userPodFails prometheus.Counter
	losingSupport          *prometheus.GaugeVec

	evictions, preemptions *prometheus.CounterVec
	disrupted              *prometheus.CounterVec
	images                 *prometheus.CounterVec
	updateChecks, updates  *prometheus.CounterVec
	rollouts               *prometheus.CounterVec
	pinned, pinErrors      prometheus.Counter
	incomplete             prometheus.Counter
	ensures, pullChecks    *prometheus.CounterVec
	pullTime               *prometheus.HistogramVec
	podResources           *podResources

	requests  *prometheus.CounterVec
	responses *prometheus.HistogramVec
	inflight  *prometheus.GaugeVec
}

// The buckets are the kubelet's.
var (
	callBuckets  = prometheus.ExponentialBuckets(.005, 2.5, 14)
	pullBuckets  = []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	startBuckets = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200,
		1800, 2700, 3600}
)

func newCounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func newHistogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func newHistogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// NewCounters returns counters at 0.
func NewCounters() *Counters {
	return &Counters{
		calls: newCounterVec("kubelet_runtime_operations_total",
			"Number of calls of the container runtime by operation.", "operation_type"),
		callErrors: newCounterVec("kubelet_runtime_operations_errors_total",
			"Number of failed calls of the container runtime by operation.", "operation_type"),
		callTime: newHistogramVec("kubelet_runtime_operations_duration_seconds",
			"Duration in seconds of calls of the container runtime by operation.", callBuckets, "operation_type"),
		relist: newHistogram("kubelet_pleg_relist_duration_seconds", "Duration in seconds of full relists of the runtime.",
			prometheus.DefBuckets),
		period: newHistogram("kubelet_pleg_relist_interval_seconds",
			"Interval in seconds between full relists of the runtime. It is long with the runtime's event stream.",
			append(prometheus.DefBuckets, 30, 60, 90)),

		podWork: newHistogramVec("kubelet_pod_worker_duration_seconds",
			"Duration in seconds of one sync of a pod worker by operation: create, sync, kill or cleanup.",
			prometheus.DefBuckets, "operation_type"),
		podStart: newHistogram("kubelet_pod_start_duration_seconds",
			"Duration in seconds from the first sight of a pod until it runs.", startBuckets),
		sandboxes: prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_started_pods_total",
			Help: "Number of pod sandboxes requested from the runtime."}),
		sandboxTime: newHistogram("kubelet_run_podsandbox_duration_seconds",
			"Duration in seconds of the creation of pod sandboxes.", callBuckets),
		sandboxFails: newCounterVec("kubelet_started_pods_errors_total", "Number of failed creations of pod sandboxes.",
			"code"),
		starts: newCounterVec("kubelet_started_containers_total", "Number of container starts attempted.",
			"container_type"),
		startFails: newCounterVec("kubelet_started_containers_errors_total", "Number of failed container starts.",
			"container_type", "code"),
		userPods: prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_started_user_namespaced_pods_total",
			Help: "Number of starts of pods with a user namespace."}),
		userPodFails: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_started_user_namespaced_pods_errors_total",
			Help: "Number of failed starts of pods with a user namespace."}),
		losingSupport: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubelet_cri_losing_support",
			Help: "1 for the version of Kubernetes from which on a kubelet does not support this container runtime."},
			[]string{"version"}),

		evictions: newCounterVec("kubelet_evictions", "Number of evicted pods by eviction signal.", "eviction_signal"),
		preemptions: newCounterVec("kubelet_preemptions", "Number of preempted pods by the resource that was short.",
			"preemption_signal"),
		disrupted: newCounterVec("podstead_disrupted_pods_total",
			"Number of pods with the condition DisruptionTarget that this node terminated, by reason.", "reason"),
		images: newCounterVec("kubelet_image_garbage_collected_total",
			"Number of removed images by reason: age, space or command.", "reason"),
		updateChecks: newCounterVec("podstead_image_update_checks_total",
			"Number of checks of a container's image for a newer one, by result: current, available or failed.", "result"),
		incomplete: prometheus.NewCounter(prometheus.CounterOpts{Name: "podstead_incomplete_images_removed_total",
			Help: "Number of images that were removed because the machine went down while they were pulled or loaded."}),
		updates: newCounterVec("podstead_image_updates_total",
			"Number of image updates of pods that have ended, by result: completed or rolled_back.", "result"),
		rollouts: newCounterVec("podstead_rollouts_total",
			"Number of rollouts of static pods that have ended, by result: completed or rolled_back.", "result"),
		pinned: prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_memory_manager_pinning_requests_total",
			Help: "Number of requests of containers for memory of NUMA nodes."}),
		pinErrors: prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_memory_manager_pinning_errors_total",
			Help: "Number of requests of containers for memory of NUMA nodes that could not be assigned."}),
		ensures: newCounterVec("kubelet_image_manager_ensure_image_requests_total",
			"Number of requests for the images of containers and volumes.", "pull_policy", "present_locally", "pull_required"),
		pullChecks: newCounterVec("kubelet_imagemanager_image_mustpull_checks_total",
			"Number of checks whether a pod may use an image that is present, by result.", "result"),
		pullTime: newHistogramVec("kubelet_image_pull_duration_seconds",
			"Duration in seconds of image pulls by the size of the image.", pullBuckets, "image_size_in_bytes"),
		podResources: newPodResources(),

		requests: newCounterVec("kubelet_http_requests_total", "Number of HTTP requests.", "method", "path", "server_type",
			"long_running"),
		responses: newHistogramVec("kubelet_http_requests_duration_seconds", "Duration in seconds of HTTP requests.",
			prometheus.DefBuckets, "method", "path", "server_type", "long_running"),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubelet_http_inflight_requests",
			Help: "Number of HTTP requests in flight."}, []string{"method", "path", "server_type", "long_running"}),
	}
}

// all returns the collectors to register.
func (c *Counters) all() []prometheus.Collector {
	return []prometheus.Collector{
		c.calls, c.callErrors, c.callTime, c.relist, c.period,
		c.podWork, c.podStart, c.sandboxes, c.sandboxTime, c.sandboxFails, c.starts, c.startFails,
		c.userPods, c.userPodFails, c.losingSupport, c.podResources,
		c.evictions, c.preemptions, c.disrupted, c.images, c.updateChecks, c.updates, c.incomplete, c.rollouts, c.pinned,
		c.pinErrors,
		c.ensures, c.pullChecks, c.pullTime, c.requests, c.responses, c.inflight,
	}
}

// RuntimeCall counts a call of the runtime, given by its CRI name. err is an errors.ErrUnsupported for a call that
// the runtime does not have.
func (c *Counters) RuntimeCall(method string, took time.Duration, err error) {
	operation := operationType(method)
	c.calls.WithLabelValues(operation).Inc()
	c.callTime.WithLabelValues(operation).Observe(took.Seconds())
	failed := err != nil && !errors.Is(err, context.Canceled)
	if failed {
		c.callErrors.WithLabelValues(operation).Inc()
	}
	switch method {
	case "RuntimeConfig":
		c.runtimeConfigured(err)
	case "RunPodSandbox":
		c.sandboxes.Inc()
		c.sandboxTime.Observe(took.Seconds())
		if failed {
			c.sandboxFails.WithLabelValues("CreatePodSandboxError").Inc()
		}
	}
}

// requiresRuntimeConfig is the version of Kubernetes whose kubelet needs the CRI call RuntimeConfig, which containerd
// before 2.0 and CRI-O before 1.28 do not have. podstead does not.
const requiresRuntimeConfig = "1.38.0"

// runtimeConfigured sees whether the runtime has the call RuntimeConfig; it may have been upgraded.
func (c *Counters) runtimeConfigured(err error) {
	switch {
	case err == nil:
		c.losingSupport.Reset()
	case errors.Is(err, errors.ErrUnsupported):
		c.losingSupport.WithLabelValues(requiresRuntimeConfig).Set(1)
	}
}

// operationType returns the kubelet's name of a CRI method, such as
// run_podsandbox.
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

// Relisted counts a full relist. since is the time since the previous one, 0 for
// the first.
func (c *Counters) Relisted(took, since time.Duration) {
	c.relist.Observe(took.Seconds())
	if since > 0 {
		c.period.Observe(since.Seconds())
	}
}

// ContainerStarted counts an attempt to start a container; failed is the reason
// of its failure, empty if it succeeded.
func (c *Counters) ContainerStarted(kind, failed string) {
	c.starts.WithLabelValues(kind).Inc()
	if failed != "" {
		c.startFails.WithLabelValues(kind, failed).Inc()
	}
}

// PodSynced implements supervisor.Metrics.
func (c *Counters) PodSynced(operation string, took time.Duration) {
	c.podWork.WithLabelValues(operation).Observe(took.Seconds())
}

// PodStarted implements supervisor.Metrics.
func (c *Counters) PodStarted(took time.Duration) { c.podStart.Observe(took.Seconds()) }

// UserNamespacedPodStarted implements supervisor.Metrics.
func (c *Counters) UserNamespacedPodStarted(err error) {
	c.userPods.Inc()
	if err != nil {
		c.userPodFails.Inc()
	}
}

// Reasons of disruptions that the kubelet counts too.
const (
	reasonEvicted    = "Evicted"
	reasonPreempting = "Preempting"
)

// PodDisrupted implements supervisor.Metrics.
func (c *Counters) PodDisrupted(reason, signal string) {
	c.disrupted.WithLabelValues(reason).Inc()
	switch reason {
	case reasonEvicted:
		c.evictions.WithLabelValues(signal).Inc()
	case reasonPreempting:
		c.preemptions.WithLabelValues(signal).Inc()
	}
}

// MemoryRequested counts a request of a container for memory of NUMA nodes. err is nil if it was
// assigned.
func (c *Counters) MemoryRequested(err error) {
	c.pinned.Inc()
	if err != nil {
		c.pinErrors.Inc()
	}
}

// ImageRemoved counts a removed image.
func (c *Counters) ImageRemoved(why string) { c.images.WithLabelValues(why).Inc() }

// ImageChecked implements autoupdate.Metrics.
func (c *Counters) ImageChecked(result string) { c.updateChecks.WithLabelValues(result).Inc() }

// ImageUpdated implements autoupdate.Metrics.
func (c *Counters) ImageUpdated(result string) { c.updates.WithLabelValues(result).Inc() }

// IncompleteImageRemoved counts an image that was removed because the machine went down while it was pulled or loaded.
func (c *Counters) IncompleteImageRemoved() { c.incomplete.Inc() }

// RolloutEnded counts a rollout of a pod that has ended.
func (c *Counters) RolloutEnded(result string) { c.rollouts.WithLabelValues(result).Inc() }

// imageSizes are the kubelet's classes of image sizes, by the largest size in MiB.
var imageSizes = []struct {
	most  uint64
	class string
}{
	{10, "0-10MB"}, {100, "10MB-100MB"}, {500, "100MB-500MB"}, {1 << 10, "500MB-1GB"}, {5 << 10, "1GB-5GB"},
	{10 << 10, "5GB-10GB"},
	{20 << 10, "10GB-20GB"}, {30 << 10, "20GB-30GB"}, {40 << 10, "30GB-40GB"}, {60 << 10, "40GB-60GB"},
	{100 << 10, "60GB-100GB"},
}

// ImagePulled counts a pull of an image with a size in bytes, 0 if it is not known.
func (c *Counters) ImagePulled(size uint64, took time.Duration) {
	class := "GT100GB"
	for i := len(imageSizes) - 1; i >= 0 && size <= imageSizes[i].most<<20; i-- {
		class = imageSizes[i].class
	}
	if size == 0 {
		class = "N/A"
	}
	c.pullTime.WithLabelValues(class).Observe(took.Seconds())
}

// ImageEnsured counts a request for an image. present and pulled are nil if they are not
// known; checked is the result of the check of credentials, empty if there was none.
func (c *Counters) ImageEnsured(policy string, present, pulled *bool, checked string) {
	text := func(b *bool) string {
		if b == nil {
			return "unknown"
		}
		return strconv.FormatBool(*b)
	}
	c.ensures.WithLabelValues(strings.ToLower(policy), text(present), text(pulled)).Inc()
	if checked != "" {
		c.pullChecks.WithLabelValues(checked).Inc()
	}
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// serverType is the kubelet's label value for the listener with all routes.
const serverType = "readwrite"

// Request counts a request. done is to be called when it ends.
func (c *Counters) Request(method, path string, long bool) (done func()) {
	if !slices.Contains(methods, method) {
		method = "other" // clients may invent methods, and each would be a series
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
		c.responses.WithLabelValues(method, path, serverType, running).Observe(time.Since(began).Seconds())
	}
}
