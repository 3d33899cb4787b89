package daemon

import (
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/csi"
	"github.com/podstead/podstead/node/stats"
	"github.com/podstead/podstead/supervisor/pleg"
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
