package metrics

import "github.com/prometheus/client_golang/prometheus"

// podResources counts the requests to the PodResources API by its version, together and by call, as the kubelet does.
type podResources struct {
	requests *prometheus.CounterVec
	calls    map[string]podResourcesCall
}

type podResourcesCall struct{ requests, errors *prometheus.CounterVec }

func newPodResources() *podResources {
	const prefix, version = "kubelet_pod_resources_endpoint_", "server_api_version"
	p := &podResources{calls: map[string]podResourcesCall{}, requests: newCounterVec(prefix+"requests_total",
		"Number of requests to the PodResources API by its version.", version)}
	for call, name := range map[string]string{"List": "list", "Get": "get",
		"GetAllocatableResources": "get_allocatable"} {
		p.calls[call] = podResourcesCall{
			newCounterVec(prefix+"requests_"+name, "Number of requests to "+call+" of the PodResources API by its version.",
				version),
			newCounterVec(prefix+"errors_"+name, "Number of errors of "+call+" of the PodResources API by its version.",
				version),
		}
	}
	return p
}

// Describe implements prometheus.Collector.
func (p *podResources) Describe(to chan<- *prometheus.Desc) {
	p.requests.Describe(to)
	for _, c := range p.calls {
		c.requests.Describe(to)
		c.errors.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (p *podResources) Collect(to chan<- prometheus.Metric) {
	p.requests.Collect(to)
	for _, c := range p.calls {
		c.requests.Collect(to)
		c.errors.Collect(to)
	}
}

// PodResourcesRequested counts a request to the PodResources API by its version, v1 or v1alpha1, and the name of the
// call, such as List.
func (c *Counters) PodResourcesRequested(version, call string, err error) {
	c.podResources.requests.WithLabelValues(version).Inc()
	counted, ok := c.podResources.calls[call]
	if !ok {
		return
	}
	counted.requests.WithLabelValues(version).Inc()
	if err != nil {
		counted.errors.WithLabelValues(version).Inc()
	}
}
