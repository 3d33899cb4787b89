package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

var (
	probeTotal = counter("prober_probe_total",
		"Number of liveness, readiness and startup probes of a container by result.",
		"probe_type", "result", "container", "pod", "namespace", "pod_uid")
	probeTime = prometheus.NewDesc("prober_probe_duration_seconds", "Duration in seconds of probes.",
		[]string{"probe_type", "container", "pod", "namespace", "pod_uid"}, nil)
)

// probes collects the results of probes.
func (s *Sources) probes(to chan<- prometheus.Metric) {
	for _, c := range s.Probes() {
		uid := string(c.UID)
		for result, n := range map[string]uint64{"successful": c.Succeeded, "failed": c.Failed, "unknown": c.Unknown} {
			if n > 0 || result == "successful" {
				probeTotal.send(to, float64(n), c.Type, result, c.Container, c.Pod, c.Namespace, uid)
			}
		}
		to <- prometheus.MustNewConstHistogram(probeTime, c.Succeeded+c.Failed, c.Took.Seconds(), c.Buckets, c.Type,
			c.Container, c.Pod, c.Namespace, uid)
	}
}
