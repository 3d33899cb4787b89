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

// put gives a value.
func (s series) put(to chan<- prometheus.Metric, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...)
}

// at gives a value that was measured at a time.
func (s series) at(to chan<- prometheus.Metric, at time.Time, value float64, labels ...string) {
	to <- prometheus.NewMetricWithTimestamp(at, prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...))
}

// collected is a collector that is a function. It says nothing of what it will
// collect, so that what it gives is checked at each scrape only.
type collected func(to chan<- prometheus.Metric)

// Describe implements prometheus.Collector.
func (collected) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collected) Collect(to chan<- prometheus.Metric) { c(to) }
