package daemon

import (
	"context"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/evict"
	"github.com/podstead/podstead/node/nodestatus"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/status"
	"github.com/podstead/podstead/supervisor/volumeview"
)

// startEviction creates the evictor, which terminates pods when an eviction threshold is met, and lets it hold
// pods that it would have to evict again.
func (d *daemon) startEviction() *evict.Evictor {
	o, client, p, sup := d.opts, d.runtime.Client, &d.observers, d.sup
	ceiling, _ := cgroup.Ceiling(o.Cgroups.Root)
	host := evict.NewHost(evict.HostConfig{
		Root: o.Paths.Root, ImageDirectory: client.ImageMount,
		Ceiling: ceiling, Machine: cgroup.MachineMemory(),
		Pods: func() cgroup.MemoryCgroup { return cgroup.PodsMemory(o.Cgroups.Root) },
	})
	evictor := evict.New(evict.Config{
		Thresholds: o.Eviction.Thresholds, Transition: o.Eviction.Transition, MaxPodGrace: int64(o.Eviction.MaxPodGrace),
		Resources: host, Memory: host, Pods: evictedPods{sup, p.statuses}, Usage: evict.Measured(p.stats),
		Claims:  nodeClaims{root: o.Paths.Root, volumes: d.newVolumeView()},
		Reclaim: reclaimer{sup, d.node.images}, Events: p.events, HasImages: client.HasImages,
		File: filepath.Join(o.Paths.Root, "pressure.json"), Boot: nodestatus.ReadHost("/").BootID, Disk: d.disk, Log: d.log,
	})
	sup.AddGate(func(pod *v1.Pod) *status.Cause {
		if reason, message := evictor.Hold(pod); reason != "" {
			return &status.Cause{Reason: reason, Message: message}
		}
		return nil
	})
	sup.SetRestartPolicy(evict.ReasonEvicted, func(_ *v1.Pod, d status.Disruption) (now bool, after time.Duration) {
		return evictor.CanRestart(v1.NodeConditionType(d.Cause), d.At)
	})
	d.start(evictor.Run, host.Run)
	return evictor
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

// nodeClaims lists the claims on the file system of the root directory.
type nodeClaims struct {
	root    string
	volumes *volumeview.View
}

func (c nodeClaims) NodeClaims(ctx context.Context) (list []evict.Claim) {
	for _, claim := range c.volumes.Measured(ctx) {
		if !claim.Block && evict.SameFS(claim.Path, c.root) {
			list = append(list, evict.Claim{Namespace: claim.Namespace, Name: claim.Name, Pods: claim.Pods,
				Space: evict.Space{Bytes: int64(claim.Used), Inodes: int64(claim.InodesUsed)}})
		}
	}
	return list
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
