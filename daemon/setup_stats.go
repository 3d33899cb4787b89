package daemon

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/csi"
	"github.com/podstead/podstead/node/stats"
	"github.com/podstead/podstead/node/stats/summary"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/pleg"
	"github.com/podstead/podstead/supervisor/volumeview"
)

// usageAge is the maximum age of the usage that the API returns. The kubelet's is
// up to 15 seconds old.
const usageAge = time.Second

// newStats creates the collector of usage. It reads cgroups, or the runtime's
// statistics where there are none.
func newStats(o *config.Options, client *cri.Client, observer *pleg.PLEG, drivers *csi.Manager,
	log *slog.Logger) *stats.Collector {
	reader, err := cgroup.OpenReader("")
	if err != nil {
		log.Warn("Cannot read cgroups, using the runtime's stats only", "err", err)
	}
	return stats.New(stats.Config{
		Runtime: client, Observed: func() []stats.ObservedPod { return observedPods(observer.Observed()) }, Cgroups: reader,
		CgroupRoot:     o.Cgroups.Root,
		Ceiling:        func() (cgroup.MemoryCgroup, int64) { return cgroup.Ceiling(o.Cgroups.Root) },
		RuntimeProcess: client.PID,
		Root:           o.Paths.Root, DriverUsage: drivers.Usage, Log: log,
		LogDirectory: func(namespace, name string, uid types.UID) string {
			return cri.LogDirectory(o.Paths.PodLogs, namespace, name, uid)
		},
	})
}

// statsView returns usage in the form of the API.
type statsView struct {
	nodeName  string
	labels    map[string]string
	collector *stats.Collector
	pods      *supervisor.Supervisor
	// diskAge is the maximum age of disk usage.
	diskAge time.Duration
	volumes *volumeview.View
}

// Summary implements httpapi.StatsReader.
func (v statsView) Summary(ctx context.Context, onlyCPUAndMemory bool) (any, error) {
	node, pods, err := v.collector.Rates(ctx, usageAge)
	if err != nil {
		return nil, err
	}
	in := summary.Input{NodeName: v.nodeName, Node: node, Pods: pods}
	if in.Pressure, err = v.collector.Pressure(ctx, usageAge); err != nil {
		return nil, err
	}
	if onlyCPUAndMemory {
		return summary.Make(in), nil
	}
	if in.Disks, err = v.collector.Disks(ctx, v.diskAge); err != nil {
		return nil, err
	}
	in.Claims = v.volumes.Usage(ctx)
	if in.Traffic, err = v.collector.Traffic(ctx, usageAge); err != nil {
		return nil, err
	}
	in.Specs = v.pods.Pods()
	return summary.Make(in), nil
}

// Usage implements kubeapi.UsageReader.
func (v statsView) Usage(ctx context.Context) ([]kubeapi.NodeUsage, []kubeapi.PodUsage, error) {
	node, pods, err := v.collector.Rates(ctx, usageAge)
	if err != nil {
		return nil, nil, err
	}
	var nodes []kubeapi.NodeUsage
	if u, window, ok := usedOf(&node.Usage); ok {
		nodes = append(nodes, kubeapi.NodeUsage{Name: v.nodeName, Labels: v.labels, At: node.At, Window: window,
			ResourceUsage: u})
	}
	labels, names := map[types.UID]map[string]string{}, map[types.UID]string{}
	for _, pod := range v.pods.Pods() {
		labels[pod.UID], names[pod.UID] = pod.Labels, manifest.BaseName(pod)
	}
	var list []kubeapi.PodUsage
	for i := range pods.Pods {
		pod := &pods.Pods[i]
		one := kubeapi.PodUsage{Name: pod.Name, Namespace: pod.Namespace, ManifestName: names[pod.UID],
			Labels: labels[pod.UID], At: pod.At}
		for j := range pod.Containers {
			u, window, ok := usedOf(&pod.Containers[j].Usage)
			if !ok {
				continue
			}
			one.Window = max(one.Window, window)
			one.Containers = append(one.Containers, kubeapi.ContainerUsage{Name: pod.Containers[j].Name, ResourceUsage: u})
		}
		if len(one.Containers) > 0 {
			list = append(list, one)
		}
	}
	return nodes, list, nil
}

// usedOf returns the current usage, false unless CPU and memory are both known.
func usedOf(u *usage.Usage) (kubeapi.ResourceUsage, time.Duration, bool) {
	if u.CPU == nil || u.CPU.Rate == nil || u.Memory == nil {
		return kubeapi.ResourceUsage{}, 0, false
	}
	return kubeapi.ResourceUsage{Cores: *u.CPU.Rate, Memory: u.WorkingSet()}, u.CPU.Window, true
}

// observedPods shows node/stats what the runtime has. It makes two lists, which
// the measurement discards.
func observedPods(o *cri.Observed) []stats.ObservedPod {
	count := 0
	for _, pod := range o.Own {
		count += len(pod.Containers)
	}
	pods, containers := make([]stats.ObservedPod, len(o.Own)), make([]stats.ObservedContainer, 0, count)
	for i, pod := range o.Own {
		p := &pods[i]
		p.UID, p.Name, p.Namespace = pod.UID, pod.Name, pod.Namespace
		if len(pod.Sandboxes) > 0 {
			s := &pod.Sandboxes[0]
			p.SandboxID, p.SandboxReady, p.SandboxCreatedAt, p.CgroupParent = s.ID, s.Ready, s.CreatedAt, s.CgroupParent()
		}
		first := len(containers)
		for j := range pod.Containers {
			c := &pod.Containers[j]
			containers = append(containers,
				stats.ObservedContainer{Name: c.Name, ID: c.ID, CreatedAt: c.CreatedAt, Running: c.State == cri.StateRunning})
		}
		p.Containers = containers[first:len(containers):len(containers)]
	}
	return pods
}
