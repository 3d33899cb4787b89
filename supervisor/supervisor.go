package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podorder"
	"github.com/podstead/podstead/supervisor/podset"
	"github.com/podstead/podstead/supervisor/podstart"
	"github.com/podstead/podstead/supervisor/podview"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/runtimehealth"
	"github.com/podstead/podstead/supervisor/userns"
	"github.com/podstead/podstead/supervisor/volume"
)

// Supervisor keeps the desired pods running.
type Supervisor struct {
	cfg         Config
	log         *slog.Logger
	desired     *podset.Set
	workers     *podworkers.Workers
	runtime     *runtimehealth.Monitor
	podSyncer   *podSyncer
	garbage     *gc.Containers
	loop        loopHealth
	cleanup     cleanup
	shutdown    hostShutdown
	views       podview.Cache
	firstStatus podview.FirstStatus
	registry    registry
	order       *podorder.Order
	// kept are the orphans that stay for now, as the last round of housekeeping found them;
	// nil before the first one.
	kept atomic.Pointer[[]podworkers.View]
}

// New returns a supervisor. It starts nothing and touches nothing.
func New(cfg Config) (*Supervisor, error) {
	return newSupervisor(cfg, func(s syncer) syncer { return s })
}

// syncer syncs the pods of the workers.
type syncer = podworkers.Syncer[runState]

// newSupervisor is New with another syncer around the supervisor's own.
func newSupervisor(cfg Config, wrap func(syncer) syncer) (*Supervisor, error) {
	switch {
	case cfg.Sources.Pods == nil:
		return nil, errors.New("supervisor: Config.Sources.Pods is required")
	case cfg.Runtime.Observer == nil || cfg.Runtime.Syncer == nil || cfg.Runtime.Backoff == nil ||
		cfg.Runtime.Health == nil:
		return nil, errors.New("supervisor: Config.Runtime needs Observer, Syncer, Backoff and Health")
	case cfg.Store.Statuses == nil || cfg.Store.Records == nil:
		return nil, errors.New("supervisor: Config.Store needs Statuses and Records")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Events == nil {
		cfg.Events = noEvents{}
	}
	if cfg.Metrics == nil {
		cfg.Metrics = noMetrics{}
	}
	if cfg.Sources.Rollouts == nil {
		cfg.Sources.Rollouts = noRollouts{}
	}
	if cfg.Sources.Objects == nil {
		cfg.Sources.Objects = podinputs.NoObjects{}
	}
	if cfg.Network.HostIPs == nil {
		cfg.Network.HostIPs = noHostIPs{}
	}
	cfg.Paths = cfg.Paths.withDefaults()
	s := &Supervisor{
		cfg:     cfg,
		log:     cfg.Log,
		desired: podset.New(),
		runtime: runtimehealth.New(cfg.Runtime.Health, cfg.Runtime.Observer, cfg.Log),
	}
	if cfg.Node.Taints == nil {
		s.cfg.Node.Taints = s.registry.nodeTaints
	}
	s.podSyncer = &podSyncer{}
	s.workers = podworkers.New(wrap(s.podSyncer))
	s.order = s.newOrder()
	s.podSyncer.order = startOrder{Order: s.order, shutdown: &s.shutdown, events: s.cfg.Events}
	s.podSyncer.init(&s.cfg, s.runtime, &s.registry, s.workers)
	s.registerOwn()
	s.podSyncer.files.reclaimer = newVolumeReclaimer(&s.cfg, s.podSyncer.files.volumes,
		func() bool { return s.SourceReady("") })
	s.garbage = gc.NewContainers(gc.ContainersConfig{
		Policy:      cfg.Garbage,
		Runtime:     garbageRuntime{cfg.Runtime},
		Collectable: s.workers.Desired,
		RunState:    s.runState,
		Files:       s.podSyncer.files.logs,
		Events:      cfg.Events,
		Log:         cfg.Log,
	})
	return s, nil
}

// newResolver returns the resolver of what pods refer to.
func newResolver(cfg *Config, volumes *volume.Volumes) *podinputs.Resolver {
	return podinputs.New(podinputs.Config{
		Objects: cfg.Sources.Objects, ClusterObjects: cfg.Sources.ClusterObjects, RuntimeClasses: cfg.Runtime.Classes,
		Allocatable: cfg.Allocatable, HostIPs: cfg.Network.HostIPs, DNS: cfg.Network.DNS, Uptime: cfg.Network.Uptime,
		Volumes: volumes, Users: userns.New(cfg.Paths.pods(), cfg.Store.Disk), Credentials: cfg.Credentials,
		Events: cfg.Events,
	})
}

// registerOwn registers the gates and policies of the supervisor itself.
func (s *Supervisor) registerOwn() {
	s.AddGate(s.shutdown.gate)
	s.SetRestartPolicy(admit.ReasonPreempting, s.podSyncer.admission.canRestartPreempted)
	s.SetRestartPolicy(podstart.ReasonTerminated, s.canRestartAfterShutdown)
}

// Run supervises until the context ends, and returns when all goroutines that it
// started have returned. It leaves every pod as it is. Run is called once.
func (s *Supervisor) Run(ctx context.Context) error {
	s.registry.close()
	var wg sync.WaitGroup
	defer wg.Wait()
	s.workers.Start(ctx, &wg)
	wg.Go(func() { s.runtime.Run(ctx) })
	wg.Go(func() { s.podSyncer.resources.Run(ctx) })
	wg.Go(func() { _ = s.garbage.Run(ctx) }) // it returns only when ctx ends
	wg.Go(func() { s.podSyncer.files.reclaimer.run(ctx) })
	s.syncLoop(ctx)
	return nil
}

// SourceReady reports whether a source has delivered all its pods; for a source that
// is not configured any more, whether all sources have.
func (s *Supervisor) SourceReady(source string) bool {
	return s.desired.IsReady(manifest.Source(source), s.cfg.Sources.Pods.Sources())
}

type (
	// WorkerCounts are the numbers of pod workers by kind.
	WorkerCounts = podworkers.Counts
	// WorkerKind is a kind of pod worker.
	WorkerKind = podworkers.Kind
)

// Workers counts the pod workers.
func (s *Supervisor) Workers() WorkerCounts { return s.workers.Count() }

// runState reports to the garbage collection whether the run of a pod has ended.
func (s *Supervisor) runState(uid types.UID) gc.RunState {
	switch ended, restarts := s.workers.RunEnded(uid); {
	case restarts:
		return gc.RunEndedWillRestart
	case ended:
		return gc.RunEndedForGood
	}
	return gc.RunActive
}

// loopTimeout is how long one iteration of the sync loop may take before the loop
// counts as hung. An iteration does no I/O but the listing of two directories. The
// kubelet allows five minutes.
const loopTimeout = 2 * time.Minute

// SyncLoopHealthy returns an error if the sync loop does not run or hangs. A runtime
// that is down is not a hung loop.
func (s *Supervisor) SyncLoopHealthy() error {
	since, running := s.loop.busySince()
	if !running {
		return errors.New("sync loop is not running")
	}
	if !since.IsZero() && time.Since(since) > loopTimeout {
		return fmt.Errorf("sync loop has been busy with one event for %s", time.Since(since).Round(time.Second))
	}
	return nil
}

// loopHealth records since when the sync loop handles an event.
type loopHealth struct {
	mu      sync.Mutex
	running bool
	since   time.Time
}

func (h *loopHealth) set(running bool, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running, h.since = running, since
}

func (h *loopHealth) busySince() (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since, h.running
}
