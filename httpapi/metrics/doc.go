// Package metrics exports Prometheus metrics under the names that dashboards and
// alerts know: the kubelet's, cAdvisor's, and podstead's own where neither has
// one.
//
// It owns the counters of events, which cost next to nothing between scrapes, and
// the handlers of /metrics and the paths below it. It reads everything else from
// its Sources at each scrape. A scrape of /metrics never calls the runtime, and
// the package never changes anything.
//
// It exports a metric only if it is maintained: a metric that would always be 0
// is left out.
package metrics
