package evict

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/usage"
)

// Collector measures the node and its pods. Implemented by stats.Collector, which serves all statistics.
type Collector interface {
	// Pods and Disks return usage that is at most maxAge old, unless that is expensive.
	Pods(ctx context.Context, maxAge time.Duration) (*usage.Pods, error)
	Disks(ctx context.Context, maxAge time.Duration) (*usage.Disks, error)
}

// Measured returns the usage of pods that a collector measures.
func Measured(c Collector) UsageReader { return measured{c} }

type measured struct{ collector Collector }

// Running implements UsageReader.
func (m measured) Running(ctx context.Context) (map[types.UID]Usage, error) {
	pods, err := m.collector.Pods(ctx, 0)
	if err != nil {
		return nil, err
	}
	byUID := make(map[types.UID]Usage, len(pods.Pods))
	for i := range pods.Pods {
		p := &pods.Pods[i]
		u := Usage{Memory: int64(p.WorkingSet())}
		if p.Processes != nil {
			u.Processes = int64(*p.Processes)
		}
		byUID[p.UID] = u
	}
	return byUID, nil
}

// Disks implements UsageReader.
func (m measured) Disks(ctx context.Context, maxAge time.Duration) (map[types.UID]Disk, error) {
	disks, err := m.collector.Disks(ctx, maxAge)
	if err != nil {
		return nil, err
	}
	byUID := make(map[types.UID]Disk, len(disks.Pods))
	for uid, pod := range disks.Pods {
		byUID[uid] = diskOf(pod)
	}
	return byUID, nil
}

func diskOf(pod *usage.PodDisk) Disk {
	d := Disk{At: pod.At, Volumes: map[string]Space{}, Rootfs: map[string]Space{}, Logs: map[string]Space{}}
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

func spaceOf(fs *usage.Filesystem) Space {
	return Space{Bytes: int64(fs.Used), Inodes: int64(fs.InodesUsed)}
}
