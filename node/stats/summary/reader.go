package summary

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/usage"
)

// Collector measures. Implemented by stats.Collector.
type Collector interface {
	Rates(ctx context.Context, maxAge time.Duration) (*usage.Node, *usage.Pods, error)
	Pressure(ctx context.Context, maxAge time.Duration) (*usage.Pressures, error)
	Disks(ctx context.Context, maxAge time.Duration) (*usage.Disks, error)
	Traffic(ctx context.Context, maxAge time.Duration) (map[types.UID][]usage.Interface, error)
}

// Reader makes summaries of what it measures.
type Reader struct {
	NodeName  string
	Collector Collector
	// Age is the maximum age of usage, DiskAge that of the usage of disks.
	Age, DiskAge time.Duration
	// Claims returns the usage of the volumes of claims, Pods the pods.
	Claims func(context.Context) usage.ClaimVolumes
	Pods   func() []*v1.Pod
}

// Read returns a summary, if onlyCPUAndMemory is set without what else would have to be measured.
func (r Reader) Read(ctx context.Context, onlyCPUAndMemory bool) (any, error) {
	node, pods, err := r.Collector.Rates(ctx, r.Age)
	if err != nil {
		return nil, err
	}
	in := Input{NodeName: r.NodeName, Node: node, Pods: pods}
	if in.Pressure, err = r.Collector.Pressure(ctx, r.Age); err != nil {
		return nil, err
	}
	if onlyCPUAndMemory {
		return Make(in), nil
	}
	if in.Disks, err = r.Collector.Disks(ctx, r.DiskAge); err != nil {
		return nil, err
	}
	in.Claims = r.Claims(ctx)
	if in.Traffic, err = r.Collector.Traffic(ctx, r.Age); err != nil {
		return nil, err
	}
	in.Specs = r.Pods()
	return Make(in), nil
}
