package evict

import (
	"context"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/internal/statefile"
)

// Config configures an Evictor. All fields but HasImages, Memory, File, Disk and
// Log are required.
type Config struct {
	Thresholds []Threshold
	// Transition is how long a threshold must not be met before the node condition
	// clears, and before evicted pods restart.
	Transition time.Duration
	// MaxPodGrace limits the grace period in seconds of pods that are evicted for a
	// soft threshold.
	MaxPodGrace int64
	Resources   NodeResources
	Memory      Alarm
	Pods        Pods
	Usage       UsageReader
	// Claims are named as the users of a disk; nil: there are none.
	Claims  Claims
	Reclaim Reclaimer
	Events  Recorder
	// HasImages reports whether all images of a pod are on the node; nil: they may not be.
	HasImages func(context.Context, *v1.Pod) bool
	// File stores the conditions that are set; Boot is the boot ID.
	File, Boot string
	// Disk is where File is.
	Disk statefile.Disk
	Log  *slog.Logger
}

// Evictor evicts pods of a node under pressure.
type Evictor struct {
	cfg Config
	log *slog.Logger

	mu      sync.Mutex // guards the fields below; not held during I/O
	tracker *Tracker
	// checked reports that a first check was made.
	checked bool
	// diskCause is how short the disk is and what fills it, while no eviction relieves it; empty otherwise.
	diskCause string

	// Only Run uses the fields below.
	levels Levels
	// disksCheckedAt is when the disks were last checked.
	disksCheckedAt time.Time
	limited        []*v1.Pod
	// stale reports that pods may have changed since limited was made.
	stale       bool
	storageScan storageScan
	// lastFutile is when the last attempt to free something failed; zero if it did
	// not.
	lastFutile time.Time
	reportedThreshold
	saved savedState
}

// reportedThreshold is what was reported of the threshold that is met.
type reportedThreshold struct {
	reported       bool
	reportedSignal Signal
	// noCandidates: no pod can be evicted for it.
	noCandidates bool
}

// New creates an evictor with the conditions that an earlier daemon left. It
// starts nothing.
func New(cfg Config) *Evictor {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Evictor{cfg: cfg, log: cfg.Log, tracker: NewTracker(cfg.Thresholds, cfg.Transition), stale: true}
	e.saved = savedState{file: stateFormat.File(cfg.File, cfg.Disk), boot: cfg.Boot, log: cfg.Log}
	e.storageScan.done = make(chan map[types.UID]Disk)
	e.restore()
	return e
}

// The intervals between checks.
const (
	// interval is the time between two checks of the disks, the kubelet's for all
	// signals. A check is one system call per file system.
	interval = 10 * time.Second
	// minInterval is the minimum time between two checks of memory without
	// notifications.
	minInterval = time.Second
	// maxMemoryRate is the assumed maximum rate of memory allocation in bytes per
	// second, without notifications: the next check comes before the threshold can
	// be met at that rate, except for the last second.
	maxMemoryRate = 200 << 20
	// burstPause is the minimum time between two requested checks.
	burstPause = 100 * time.Millisecond
	// endTimeout limits the wait for the termination of a pod, as at the kubelet.
	endTimeout = 30 * time.Second
	// measureTimeout limits the measurement of pods: memory pressure does not wait
	// for a runtime that hangs.
	measureTimeout = 3 * time.Second
	// claimsTimeout limits the measurement of the volumes of claims; then they have their last usage.
	claimsTimeout = 20 * time.Second
	// futilePause is the time until the next attempt after nothing could be freed.
	futilePause = time.Minute
	// scanInterval is the time between two scans of the storage of pods with
	// limits; the measurement may make it longer.
	scanInterval = 10 * time.Second
)

// Run evicts pods under pressure until ctx ends.
func (e *Evictor) Run(ctx context.Context) error {
	changed, cancel := e.cfg.Pods.Changed()
	defer cancel()
	defer e.storageScan.wg.Wait()
	var alarm <-chan struct{}
	if e.cfg.Memory != nil {
		alarm = e.cfg.Memory.C()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			// There may be other candidates, or other pods with limits.
			e.stale = true
			if !e.lastFutile.IsZero() {
				e.lastFutile = time.Time{}
				timer.Reset(minInterval)
			}
			continue
		case e.storageScan.disks = <-e.storageScan.done:
			e.storageScan.running = false
		case <-alarm:
			// Notifications come in bursts: one check serves them all.
			if !retry.Sleep(ctx, burstPause) {
				return ctx.Err()
			}
		case <-timer.C:
		}
		timer.Reset(e.pass(ctx))
	}
}

// restore sets the conditions that an earlier daemon left. They last for the whole
// transition period from now on.
func (e *Evictor) restore() {
	list, err := e.saved.load()
	if err != nil {
		e.log.Warn("Could not load node pressure state", "file", e.cfg.File, "err", err)
	}
	for _, c := range list {
		e.tracker.Restore(c, time.Now())
	}
}

// pass checks the node, relieves it, and returns when to check again.
func (e *Evictor) pass(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		e.observe()
		e.mu.Lock()
		active := e.tracker.Active()
		e.mu.Unlock()
		e.report(active)
		// Memory pressure does not wait. On a disk, pods over their limits go
		// first.
		memory := active != nil && active.Signal.isMemory()
		if !(memory && e.relieve(ctx, *active)) && !e.enforceLimits(ctx) &&
			(active == nil || memory || !e.relieve(ctx, *active)) {
			break
		}
		// Something was freed: check whether that is enough.
		e.disksCheckedAt = time.Time{}
	}
	e.startStorageScan(ctx)
	return e.next()
}

// observe measures the node and applies changed conditions.
func (e *Evictor) observe() {
	now := time.Now()
	e.cfg.Resources.Memory(&e.levels)
	if now.Sub(e.disksCheckedAt) >= interval {
		e.disksCheckedAt = now
		e.cfg.Resources.Disk(&e.levels)
		if e.tracker.HasThreshold(PIDAvailable) {
			e.cfg.Resources.PIDs(&e.levels)
		}
	}
	e.mu.Lock()
	changed := e.tracker.Observe(&e.levels, now) || !e.checked
	first := !e.checked
	e.checked = true
	e.mu.Unlock()
	if !changed {
		return
	}
	on := e.conditions()
	e.saved.save(on)
	if !first || len(on) > 0 {
		e.log.Info("Node pressure conditions changed", "conditions", on)
	}
	e.cfg.Pods.Recheck()
}

// next returns when to check again without a notification.
func (e *Evictor) next() time.Duration {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	wait := max(interval-now.Sub(e.disksCheckedAt), burstPause)
	if after := e.tracker.NextChange(now); after > 0 {
		wait = min(wait, after)
	}
	if len(e.limited) > 0 && !e.storageScan.running {
		wait = min(wait, max(scanInterval-now.Sub(e.storageScan.at), burstPause))
	}
	for _, s := range []Signal{MemoryAvailable, AllocatableMemory} {
		margin, ok := e.tracker.Margin(&e.levels, s)
		if !ok {
			continue
		}
		if e.cfg.Memory == nil || e.cfg.Memory.Arm(s, margin) != nil {
			wait = min(wait, max(minInterval, time.Duration(float64(margin)/maxMemoryRate*float64(time.Second))))
		}
	}
	if active := e.tracker.Active(); active != nil && active.Signal.isMemory() && e.lastFutile.IsZero() {
		wait = min(wait, minInterval)
	}
	return wait
}
