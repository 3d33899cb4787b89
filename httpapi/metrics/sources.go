package metrics

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/stats"
	"github.com/podstead/podstead/probe"
)

// Sources are read when somebody scrapes.
type Sources struct {
	NodeName, Version string
	// Observed is the last view of all pods in the runtime, LastRelist when all
	// were listed last.
	Observed   func() *cri.Observed
	LastRelist func() time.Time
	Workers    func() []Worker
	Statuses   func() map[types.UID]*v1.PodStatus
	Manifests  func() []Manifests
	Claims     func() []Claim
	Probes     func() []probe.Count
	// Specs are the pods with their statuses.
	Specs func() []*v1.Pod
	Stats Stats
}

// Stats measures. Implemented by stats.Collector.
type Stats interface {
	Node(ctx context.Context, maxAge time.Duration) (*stats.Node, error)
	Pods(ctx context.Context, maxAge time.Duration) (*stats.Pods, error)
	Disks(ctx context.Context, maxAge time.Duration) (*stats.Disks, error)
	Traffic(ctx context.Context, maxAge time.Duration) (map[types.UID][]stats.Interface, error)
	IO(ctx context.Context, maxAge time.Duration) (map[string][]cgroup.IO, error)
}

// Worker is how many workers of pods there are of a kind.
type Worker struct {
	// Static is "true", empty of a pod of an API server, or "unknown".
	Config, Lifecycle, Static string
	Count                     int
}

// Manifests is how a source of manifests stands.
type Manifests struct {
	Source    string
	Delivered bool
	// Units are files, or the URL's body; Faults hold something back.
	Units, Faults, Warnings int
	// LastGood is when nothing was held back last; zero if never.
	LastGood time.Time
}

// Claim is a PersistentVolumeClaim that pods use, at its path on the host.
type Claim struct{ Namespace, Name, Path string }
