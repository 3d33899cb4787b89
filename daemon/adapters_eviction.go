package daemon

import (
	"context"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/gc"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/evict"
	"github.com/podstead/podstead/node/nodestatus"
	"github.com/podstead/podstead/node/stats"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/status"
)

// eviction is the evictor, as the supervisor sees it.
type eviction struct {
	*evict.Evictor
	host *evict.Host
}

// newEviction creates the evictor, which terminates pods when an eviction threshold is met.
func (d *daemon) newEviction() *eviction {
	o, client, p, sup := d.opts, d.runtime.client, &d.observers, d.sup
	ceiling, _ := cgroup.Ceiling(o.Cgroups.Root)
	host := evict.NewHost(evict.HostConfig{
		Root: o.Paths.Root, ImageDirectory: imageMount(client),
		Ceiling: ceiling, Machine: cgroup.MachineMemory(),
		Pods: func() cgroup.MemoryCgroup { return cgroup.PodsMemory(o.Cgroups.Root) },
	})
	return &eviction{host: host, Evictor: evict.New(evict.Config{
		Thresholds: o.Eviction.Thresholds, Transition: o.Eviction.Transition, MaxPodGrace: int64(o.Eviction.MaxPodGrace),
		Resources: host, Memory: host, Pods: evictedPods{sup: sup, statuses: p.statuses}, Usage: podMeter{p.stats},
		Reclaim: reclaimer{sup: sup, images: d.node.images}, Events: p.events, HasImages: imagesPresent(client),
		File: filepath.Join(o.Paths.Root, "pressure.json"), Boot: nodestatus.ReadHost("/").BootID, Disk: d.disk, Log: d.log,
	})}
}

// imageMountTimeout limits how long the runtime may take to report where its images are.
const imageMountTimeout = 2 * time.Second

// imageMount returns where images are stored, empty while the runtime does not report it.
func imageMount(client *cri.Client) func() string {
	return func() string {
		ctx, cancel := context.WithTimeout(context.Background(), imageMountTimeout)
		defer cancel()
		mount, err := client.ImageMount(ctx)
		if err != nil {
			return "" // the next call asks again
		}
		return mount
	}
}

// imagesPresent reports whether the runtime has all images of a pod, which then needs no
// disk space to start.
func imagesPresent(client *cri.Client) func(*v1.Pod) bool {
	return func(pod *v1.Pod) bool {
		ctx, cancel := context.WithTimeout(context.Background(), imageMountTimeout)
		defer cancel()
		for name := range podinfo.Images(&pod.Spec) {
			if image, err := client.ImageStatus(ctx, name); err != nil || image == nil {
				return false
			}
		}
		return true
	}
}

// gate holds pods that the node would have to evict again while it is under pressure.
func (e *eviction) gate(pod *v1.Pod) *status.Cause {
	condition, message := e.Admit(pod)
	if condition == "" {
		return nil
	}
	if podinfo.IsAPI(pod) {
		// It is rejected, with the reason that the kubelet gives.
		return &status.Cause{Reason: evict.ReasonEvicted, Message: message}
	}
	return &status.Cause{Reason: string(condition), Message: message + " The pod starts when the condition has cleared."}
}

// canRestart is the supervisor.RestartPolicy of evicted pods.
func (e *eviction) canRestart(_ *v1.Pod, d status.Disruption) (now bool, after time.Duration) {
	return e.CanRestart(v1.NodeConditionType(d.Cause), d.At)
}

// evictedPods terminates pods through the supervisor.
type evictedPods struct {
	sup      *supervisor.Supervisor
	statuses *status.Store
}

func (p evictedPods) List() []*v1.Pod { return p.sup.Pods() }

func (p evictedPods) Evict(o evict.Eviction) error {
	return p.sup.Disrupt(o.UID, status.Disruption{
		Reason: evict.ReasonEvicted, Message: o.Message, Signal: o.Signal, Cause: string(o.Condition), ClearLogs: o.Disk,
	}, o.GracePeriod)
}

func (p evictedPods) WaitEnded(ctx context.Context, uid types.UID) error {
	return p.sup.WaitEnded(ctx, uid)
}

func (p evictedPods) Changed() (<-chan struct{}, func()) { return p.statuses.Subscribe() }

// Recheck also notifies the watchers of the node.
func (p evictedPods) Recheck() {
	p.sup.RetryDisrupted()
	p.sup.RetryHeld()
	p.statuses.Touch()
}

// podMeter returns the usage of pods from the collector that serves all statistics.
type podMeter struct{ stats *stats.Collector }

func (m podMeter) Running(ctx context.Context) (map[types.UID]evict.Usage, error) {
	pods, err := m.stats.Pods(ctx, 0)
	if err != nil {
		return nil, err
	}
	byUID := make(map[types.UID]evict.Usage, len(pods.Pods))
	for i := range pods.Pods {
		p := &pods.Pods[i]
		u := evict.Usage{Memory: int64(p.WorkingSet())}
		if p.Processes != nil {
			u.Processes = int64(*p.Processes)
		}
		byUID[p.UID] = u
	}
	return byUID, nil
}

func (m podMeter) Disks(ctx context.Context, maxAge time.Duration) (map[types.UID]evict.Disk, error) {
	disks, err := m.stats.Disks(ctx, maxAge)
	if err != nil {
		return nil, err
	}
	byUID := make(map[types.UID]evict.Disk, len(disks.Pods))
	for uid, pod := range disks.Pods {
		byUID[uid] = diskOf(pod)
	}
	return byUID, nil
}

func diskOf(pod *usage.PodDisk) evict.Disk {
	d := evict.Disk{At: pod.At, Volumes: map[string]evict.Space{}, Rootfs: map[string]evict.Space{}, Logs: map[string]evict.Space{}}
	for i := range pod.Volumes {
		if v := &pod.Volumes[i]; v.Ephemeral {
			d.Volumes[v.Name] = spaceOf(&v.Filesystem)
		}
	}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if c.Rootfs != nil {
			d.Rootfs[c.Name] = spaceOf(c.Rootfs)
		}
		if c.Logs != nil {
			d.Logs[c.Name] = spaceOf(c.Logs)
		}
	}
	if pod.Files != nil {
		d.Files = spaceOf(pod.Files)
	}
	return d
}

func spaceOf(fs *usage.Filesystem) evict.Space {
	return evict.Space{Bytes: int64(fs.Used), Inodes: int64(fs.InodesUsed)}
}

// reclaimer frees disk space that no pod needs.
type reclaimer struct {
	sup    *supervisor.Supervisor
	images *gc.Images
}

func (r reclaimer) Containers(ctx context.Context) (int, error) {
	return r.sup.ReclaimContainers(ctx)
}
func (r reclaimer) Images(ctx context.Context) (uint64, error) { return r.images.Reclaim(ctx) }
