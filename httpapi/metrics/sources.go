package metrics

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/usage"
)

// Sources are read at each scrape. Each field is the source of some of the metrics, so that
// there are many.
type Sources struct {
	NodeName, Version string
	// Pods returns the pods as last observed in the runtime, LastRelist the time
	// of the last full relist.
	Pods       func() []PodState
	LastRelist func() time.Time
	Workers    func() []Worker
	Statuses   func() map[types.UID]*v1.PodStatus
	Manifests  func() []Manifests
	Claims     func() []usage.Claim
	Probes     func() []ProbeCount
	// Specs returns the pods with their statuses.
	Specs func() []*v1.Pod
	Stats Stats
	// RolledBack returns the number of pods that run an earlier revision, since that of
	// their manifest failed; may be nil.
	RolledBack func() int
	// Unwritten returns the number of the daemon's files that could not be written.
	Unwritten func() int
	// MemoryQoS returns how much memory of Guaranteed and of Burstable pods is protected from
	// reclaim, in bytes; nil without memory QoS.
	MemoryQoS func() (guaranteed, burstable int64)
	// ClaimsInUse returns the numbers of resource claims that are prepared by driver, and of all; nil without
	// a cluster.
	ClaimsInUse func() (drivers map[string]int, all int)
	// PodDNSReady reports whether pods can reach the node's name server; nil without one.
	PodDNSReady func() bool
	// Machine returns facts of this machine, SandboxImage the image of sandboxes; that is called until it
	// returns no error. Both may be nil.
	Machine      func() Machine
	SandboxImage func(ctx context.Context) (string, error)
	// Log may be nil.
	Log *slog.Logger
}

// Machine is this machine. Numbers are 0 if they are unknown.
type Machine struct {
	ID, SystemUUID, BootID string
	Kernel, OS             string
	PhysicalCores, Sockets int
}

// Stats measures the usage of the node and its pods, at most maxAge ago.
// Implemented by stats.Collector.
type Stats interface {
	Node(ctx context.Context, maxAge time.Duration) (*usage.Node, error)
	Pods(ctx context.Context, maxAge time.Duration) (*usage.Pods, error)
	Disks(ctx context.Context, maxAge time.Duration) (*usage.Disks, error)
	Traffic(ctx context.Context, maxAge time.Duration) (map[types.UID][]usage.Interface, error)
	Details(ctx context.Context, maxAge time.Duration) (*usage.Details, error)
}

// PodState is the state of one pod in the runtime.
type PodState struct {
	UID             types.UID
	Namespace, Name string
	// SandboxReady reports whether the pod has a ready sandbox, Running whether
	// one of its containers may run or a sandbox is ready.
	SandboxReady, Running bool
	Containers            ContainerStates
}

// ContainerStates counts containers by state.
type ContainerStates struct{ Created, Running, Exited, Unknown int }

// Worker counts the pod workers of one kind.
type Worker struct {
	// Static is "true", "" for a pod of an API server, or "unknown".
	Config, Lifecycle, Static string
	Count                     int
}

// Manifests is the state of one manifest source.
type Manifests struct {
	Source string
	// Ready reports that the source was read in full. Incomplete is the number of invalid
	// manifests because of which its pods are not known.
	Ready      bool
	Incomplete int
	// Files is the number of files, or of bodies of a URL; Faults counts the faults that
	// keep a manifest from taking effect.
	Files, Faults, Warnings int
	// LastGood is the last time without such faults; zero if there was none.
	LastGood time.Time
	// LastRead is when the source was last read in full; zero if it never was.
	LastRead time.Time
}

// ProbeCount counts the results of one probe of a container.
type ProbeCount struct {
	UID                       types.UID
	Namespace, Pod, Container string
	// Type is Liveness, Readiness or Startup.
	Type                       string
	Succeeded, Failed, Unknown uint64
	// Took is the duration of all probes together, Buckets counts those that
	// took at most the key, in seconds.
	Took    time.Duration
	Buckets map[float64]uint64
}
