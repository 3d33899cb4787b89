package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// series is one metric whose values are read at each scrape.
type series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) series {
	return series{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) series {
	return series{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

// send sends a value. Labels that are not UTF-8, such as an interface name that a container
// chose, make an invalid metric, which the scrape reports and leaves out.
func (s series) send(to chan<- prometheus.Metric, value float64, labels ...string) {
	to <- s.metric(value, labels)
}

// sendAt sends a value with the time of its measurement.
func (s series) sendAt(to chan<- prometheus.Metric, sendAt time.Time, value float64, labels ...string) {
	to <- prometheus.NewMetricWithTimestamp(sendAt, s.metric(value, labels))
}

// since sends a time in seconds since the Unix epoch, nothing for an unknown time.
func (s series) since(to chan<- prometheus.Metric, at time.Time, labels ...string) {
	if !at.IsZero() {
		s.send(to, unixSeconds(at), labels...)
	}
}

func (s series) metric(value float64, labels []string) prometheus.Metric {
	m, err := prometheus.NewConstMetric(s.desc, s.kind, value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(s.desc, err)
	}
	return m
}

// collectorFunc is a Collector. It describes nothing in advance, so that
// Prometheus checks its metrics at each scrape only.
type collectorFunc func(to chan<- prometheus.Metric)

// Describe implements prometheus.Collector.
func (collectorFunc) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collectorFunc) Collect(to chan<- prometheus.Metric) { c(to) }
