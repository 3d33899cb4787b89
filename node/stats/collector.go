package stats

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/node/cgroup"
)

// Runtime is asked for what the kernel does not show. Implemented by cri.Client.
type Runtime interface {
	ContainerStats(ctx context.Context) ([]cri.ContainerStats, error)
	SandboxStats(ctx context.Context) ([]cri.SandboxStats, error)
	ImageStats(ctx context.Context) (images, containers []cri.FilesystemStats, err error)
}

// Config is what a Collector is made of.
type Config struct {
	Runtime Runtime
	// Observed is the last view of all pods.
	Observed func() *cri.Observed
	// Cgroups reads what cgroups use; nil leaves all to the runtime.
	Cgroups *cgroup.Reader
	// CgroupRoot is the path of the cgroup of all pods.
	CgroupRoot string
	// Ceiling is the cgroup above that one which bounds the node's memory, with
	// its limit; empty if the whole machine is the node. Nil is that.
	Ceiling func() (cgroup.MemoryCgroup, int64)
	// Root is the daemon's folder with the pods' below it in pods, PodLogs
	// the one of logs.
	Root, PodLogs string
	// Log may be nil.
	Log *slog.Logger

	// What follows stands for the machine in tests.
	proc   string
	statfs func(path string) (FS, bool, error)
}

// Collector measures. Its methods may be called at the same time.
type Collector struct {
	cfg   Config
	log   *slog.Logger
	found places

	node    shared[*Node]
	pods    shared[*Pods]
	disks   shared[*Disks]
	traffic shared[map[types.UID][]Interface]
	io      shared[map[string][]cgroup.IO]

	// The rates are used in a turn of node and pods.
	nodeRates, podRates rates

	mu    sync.Mutex
	fault string
}

// New makes a collector. It measures nothing.
func New(cfg Config) *Collector {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.proc == "" {
		cfg.proc = "/proc"
	}
	if cfg.statfs == nil {
		cfg.statfs = statfs
	}
	return &Collector{
		cfg: cfg, log: cfg.Log, found: places{byID: map[string]string{}},
		node: newShared[*Node](), pods: newShared[*Pods](), disks: newShared[*Disks](),
		traffic: newShared[map[types.UID][]Interface](), io: newShared[map[string][]cgroup.IO](),
	}
}

// Node is what the node uses, measured no longer than maxAge ago.
func (c *Collector) Node(ctx context.Context, maxAge time.Duration) (*Node, error) {
	return c.node.get(ctx, maxAge, 0, c.measureNode)
}

// Pods is what the pods use of processors, memory and process IDs, measured no
// longer than maxAge ago. Only what could be measured in no way is an error.
func (c *Collector) Pods(ctx context.Context, maxAge time.Duration) (*Pods, error) {
	return c.pods.get(ctx, maxAge, 0, c.measurePods)
}

// rateGap is between two measurements that are made for a rate alone.
const rateGap = time.Second

// Rates is Node and Pods, with the rates of processors. If nothing was measured
// of late it measures twice, which takes a second.
func (c *Collector) Rates(ctx context.Context, maxAge time.Duration) (*Node, *Pods, error) {
	for first := true; ; first = false {
		node, err := c.Node(ctx, maxAge)
		if err != nil {
			return nil, nil, err
		}
		pods, err := c.Pods(ctx, maxAge)
		if err != nil {
			return nil, nil, err
		}
		if !first || rated(node, pods) {
			return node, pods, nil
		}
		select {
		case <-time.After(rateGap):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		maxAge = 0
	}
}

// rated reports whether all that has a CPU figure has a rate of it.
func rated(node *Node, pods *Pods) bool {
	lacks := func(u *Usage) bool { return u.CPU != nil && u.CPU.Rate == nil }
	if lacks(&node.Usage) {
		return false
	}
	for i := range pods.Pods {
		pod := &pods.Pods[i]
		if lacks(&pod.Usage) {
			return false
		}
		for j := range pod.Containers {
			if lacks(&pod.Containers[j].Usage) {
				return false
			}
		}
	}
	return true
}

// diskPause is how many times as long as a look at the disks takes there is
// none: walking through files may take a twentieth of a core, and no more.
const diskPause = 20

// Disks is what the pods hold on disk, measured no longer than maxAge ago, or
// longer if that would be work without end. Readers should not ask for less
// than a minute without need.
func (c *Collector) Disks(ctx context.Context, maxAge time.Duration) (*Disks, error) {
	return c.disks.get(ctx, maxAge, diskPause, c.measureDisks)
}

// Traffic is what went through the network interfaces of pods that have a
// network of their own.
func (c *Collector) Traffic(ctx context.Context, maxAge time.Duration) (map[types.UID][]Interface, error) {
	return c.traffic.get(ctx, maxAge, 0, c.measureTraffic)
}

// IO is what containers read from and wrote to devices, by container ID.
func (c *Collector) IO(ctx context.Context, maxAge time.Duration) (map[string][]cgroup.IO, error) {
	return c.io.get(ctx, maxAge, 0, c.measureIO)
}

// tell logs a fault once, until it changes.
func (c *Collector) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if text != c.fault && text != "" {
		c.log.Warn("some figures are missing", "error", err)
	}
	c.fault = text
}
