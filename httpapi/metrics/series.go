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

// put sends a value.
func (s series) put(to chan<- prometheus.Metric, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...)
}

// at sends a value with the time of its measurement.
func (s series) at(to chan<- prometheus.Metric, at time.Time, value float64, labels ...string) {
	to <- prometheus.NewMetricWithTimestamp(at, prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...))
}

// collectorFunc is a Collector. It describes nothing in advance, so that
// Prometheus checks its metrics at each scrape only.
type collectorFunc func(to chan<- prometheus.Metric)

// Describe implements prometheus.Collector.
func (collectorFunc) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collectorFunc) Collect(to chan<- prometheus.Metric) { c(to) }
