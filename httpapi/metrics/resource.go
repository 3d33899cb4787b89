package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstead/podstead/internal/usage"
)

// maxResourceAge is the maximum age of scraped values.
const maxResourceAge = time.Second

var (
	nodeCPU    = counter("node_cpu_usage_seconds_total", "Cumulative cpu time consumed by the node in core-seconds.")
	nodeMemory = gauge("node_memory_working_set_bytes", "Current working set of the node in bytes.")
	nodeSwap   = gauge("node_swap_usage_bytes", "Current swap usage of the node in bytes.")

	containerCPU = counter("container_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the container in core-seconds.", "container", "namespace", "pod")
	containerMemory = gauge("container_memory_working_set_bytes", "Current working set of the container in bytes.",
		"container", "namespace", "pod")
	containerSwap = gauge("container_swap_usage_bytes", "Current swap usage of the container in bytes.", "container",
		"namespace", "pod")
	containerStart = gauge("container_start_time_seconds", "Start time of the container in seconds since the Unix epoch.",
		"container", "namespace", "pod")

	podCPU = counter("pod_cpu_usage_seconds_total", "Cumulative cpu time consumed by the pod in core-seconds.",
		"namespace", "pod")
	podMemory = gauge("pod_memory_working_set_bytes", "Current working set of the pod in bytes.", "namespace", "pod")
	podSwap   = gauge("pod_swap_usage_bytes", "Current swap usage of the pod in bytes.", "namespace", "pod")

	scrapeError = gauge("resource_scrape_error", "1 if some stats could not be measured, 0 otherwise.")
)

// resource collects the metrics that metrics-server reads.
func (s *Sources) resource(ctx context.Context) collectorFunc {
	node, nodeErr := s.Stats.Node(ctx, maxResourceAge)
	pods, podsErr := s.Stats.Pods(ctx, maxResourceAge)
	return func(to chan<- prometheus.Metric) {
		failed := nodeErr != nil || podsErr != nil
		if nodeErr == nil {
			putResource(to, &node.Usage, nodeCPU, nodeMemory, nodeSwap)
		}
		if podsErr == nil {
			failed = failed || pods.Missing > 0
			for _, pod := range newestRevisions(pods) {
				putResource(to, &pod.Usage, podCPU, podMemory, podSwap, pod.Namespace, pod.Name)
				for i := range pod.Containers {
					c := &pod.Containers[i]
					putResource(to, &c.Usage, containerCPU, containerMemory, containerSwap, c.Name, pod.Namespace, pod.Name)
					containerStart.send(to, unixSeconds(c.CreatedAt), c.Name, pod.Namespace, pod.Name)
				}
			}
		}
		scrapeError.send(to, boolValue(failed))
	}
}

func putResource(to chan<- prometheus.Metric, u *usage.Usage, cpu, memory, swap series, labels ...string) {
	if u.CPU != nil {
		cpu.sendAt(to, u.At, u.CPU.Total.Seconds(), labels...)
	}
	if u.Memory != nil {
		memory.sendAt(to, u.At, float64(u.WorkingSet()), labels...)
		swap.sendAt(to, u.At, float64(u.Memory.Swap), labels...)
	}
}

// newestRevisions returns the pods, each name once: of two revisions the newer.
// Two are rare, since the newer one waits until the other has terminated.
func newestRevisions(pods *usage.Pods) []*usage.Pod {
	place := map[string]int{}
	list := make([]*usage.Pod, 0, len(pods.Pods))
	for i := range pods.Pods {
		pod := &pods.Pods[i]
		name := pod.Namespace + "/" + pod.Name
		at, twice := place[name]
		switch {
		case !twice:
			place[name] = len(list)
			list = append(list, pod)
		case pod.StartedAt.After(list[at].StartedAt):
			list[at] = pod
		}
	}
	return list
}

// unixSeconds returns a time in seconds since the Unix epoch.
func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
