package stats

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/projectquota"
	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/node/cgroup"
)

// Config configures a Collector.
type Config struct {
	Runtime Runtime
	// Observed returns the pods as last observed in the runtime. The collector
	// does not modify them.
	Observed func() []ObservedPod
	// Cgroups reads cgroups; nil leaves all measurements to the runtime.
	Cgroups *cgroup.Reader
	// CgroupRoot is the path of the cgroup of all pods.
	CgroupRoot string
	// Ceiling returns the cgroup above CgroupRoot that limits the node's memory,
	// and the limit in bytes; it is empty if the node is the whole machine. Nil
	// stands for the whole machine.
	Ceiling func() (cgroup.MemoryCgroup, int64)
	// RuntimeProcess returns the process of the container runtime, 0 if it is unknown. Nil
	// leaves its usage out.
	RuntimeProcess func() int
	// Root is the daemon's root directory, with the pods' directories in pods.
	Root string
	// LogDirectory returns the directory of a pod's logs.
	LogDirectory func(namespace, name string, uid types.UID) string
	// DriverUsage returns the usage of the volume that is published at a path, as its driver reports it; nil
	// if no driver does. It may be nil.
	DriverUsage func(ctx context.Context, path string) (*usage.ClaimVolume, error)
	// Log may be nil.
	Log *slog.Logger

	// Tests replace proc, statfs and quotaOf.
	proc    string
	statfs  func(path string) (usage.Filesystem, bool, error)
	quotaOf func(path string) (projectquota.Quota, error)
}

// Collector measures on demand. Its methods may be called concurrently.
type Collector struct {
	cfg         Config
	log         *slog.Logger
	cgroupPaths cgroupPaths

	node    shared[*usage.Node]
	pods    shared[*usage.Pods]
	disks   shared[*usage.Disks]
	traffic shared[map[types.UID][]usage.Interface]
	details shared[*usage.Details]
	claims  claimMeter
	// pressure is measured for /stats/summary only.
	pressure shared[*usage.Pressures]

	// The measurements of node and pods, of which one runs at a time, use the
	// rates.
	nodeRates, podRates rates

	mu    sync.Mutex
	fault string
}

// New creates a collector. It measures nothing yet.
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
	if cfg.quotaOf == nil {
		cfg.quotaOf = projectquota.Get
	}
	return &Collector{
		cfg: cfg, log: cfg.Log, cgroupPaths: cgroupPaths{byID: map[string]string{}},
		node: newShared[*usage.Node](), pods: newShared[*usage.Pods](), disks: newShared[*usage.Disks](),
		traffic: newShared[map[types.UID][]usage.Interface](), details: newShared[*usage.Details](),
		pressure: newShared[*usage.Pressures](), claims: newClaimMeter(),
	}
}

// Node returns the usage of the node, measured at most maxAge ago.
func (c *Collector) Node(ctx context.Context, maxAge time.Duration) (*usage.Node, error) {
	return c.node.get(ctx, maxAge, 0, c.measureNode)
}

// Pods returns the CPU, memory and process usage of the pods, measured at most
// maxAge ago. Containers that cannot be measured are counted in Missing; they are
// no error.
func (c *Collector) Pods(ctx context.Context, maxAge time.Duration) (*usage.Pods, error) {
	return c.pods.get(ctx, maxAge, 0, c.measurePods)
}

// rateInterval is the time between two measurements that are only made to
// compute a rate.
const rateInterval = time.Second

// Rates returns Node and Pods with CPU rates. Without a recent measurement it
// measures twice, which takes a second.
func (c *Collector) Rates(ctx context.Context, maxAge time.Duration) (*usage.Node, *usage.Pods, error) {
	for first := true; ; first = false {
		node, err := c.Node(ctx, maxAge)
		if err != nil {
			return nil, nil, err
		}
		pods, err := c.Pods(ctx, maxAge)
		if err != nil {
			return nil, nil, err
		}
		if !first || haveRates(node, pods) {
			return node, pods, nil
		}
		if !retry.Sleep(ctx, rateInterval) {
			return nil, nil, context.Cause(ctx)
		}
		maxAge = 0
	}
}

// haveRates reports whether each CPU measurement has a rate.
func haveRates(node *usage.Node, pods *usage.Pods) bool {
	lacksRate := func(u *usage.Usage) bool { return u.CPU != nil && u.CPU.Rate == nil }
	if lacksRate(&node.Usage) {
		return false
	}
	for i := range pods.Pods {
		pod := &pods.Pods[i]
		if lacksRate(&pod.Usage) {
			return false
		}
		for j := range pod.Containers {
			if lacksRate(&pod.Containers[j].Usage) {
				return false
			}
		}
	}
	return true
}

// diskPause is the minimum pause between two measurements of the disks, as a
// multiple of the time that the last one took: walking through files may use a
// twentieth of a core, not more.
const diskPause = 20

// Disks returns the disk usage of the pods, measured at most maxAge ago, or
// longer ago if measuring would never pause. Callers should not ask for less than
// a minute without need.
func (c *Collector) Disks(ctx context.Context, maxAge time.Duration) (*usage.Disks, error) {
	return c.disks.get(ctx, maxAge, diskPause, c.measureDisks)
}

// Traffic returns the network interfaces of the pods that have their own network
// namespace.
func (c *Collector) Traffic(ctx context.Context, maxAge time.Duration) (map[types.UID][]usage.Interface, error) {
	return c.traffic.get(ctx, maxAge, 0, c.measureTraffic)
}

// reportFault logs an error once, until it changes.
func (c *Collector) reportFault(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if text != c.fault && text != "" {
		c.log.Warn("Some stats are missing", "err", err)
	}
	c.fault = text
}
