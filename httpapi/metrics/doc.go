// Package metrics shows figures to Prometheus under the names that dashboards
// and alerts know: the kubelet's, cAdvisor's, and podstead's own where neither
// has one.
//
// It owns the counters of what happens, which cost next to nothing while nobody
// scrapes, and the handlers of /metrics and the paths below it. All else is read
// from whoever knows it when somebody scrapes. It never asks the runtime for
// what a scrape of /metrics shows, and never changes anything.
//
// A metric is here only if it is kept up: one that would always be 0 is not.
package metrics
