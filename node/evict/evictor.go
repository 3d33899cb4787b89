package evict

import (
	"context"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Config is what an Evictor is made of. All but Alarm, File and Log is needed.
type Config struct {
	Thresholds []Threshold
	// Transition is how long pressure has to be gone before the node's
	// condition is, and before what was evicted runs again.
	Transition time.Duration
	// MaxPodGrace in seconds bounds the time that a pod is given for a soft
	// threshold.
	MaxPodGrace int64
	Resources   NodeResources
	Memory      Alarm
	Pods        Pods
	Usage       UsageReader
	Reclaim     Reclaimer
	Events      Recorder
	// File keeps which conditions are on; Boot tells boots apart.
	File, Boot string
	Log        *slog.Logger
}

// Evictor relieves the node.
type Evictor struct {
	cfg Config
	log *slog.Logger

	mu      sync.Mutex // guards what follows; held for no I/O
	tracker *Tracker
	// looked: there was a first look.
	checked bool

	// What follows is Run's alone.
	levels Levels
	// diskLooked is when the disks were last looked at, memoryLooked the
	// memory.
	disksCheckedAt time.Time
	limited        []*v1.Pod
	// stale: pods may have changed since limited was made.
	stale       bool
	storageScan storageScan
	// fruitless is when nothing could be done last.
	lastFutile time.Time
	// met is what was told to be short, hopeless that nothing helps, unkept why
	// the file could not be written.
	reportedSignal         Signal
	reported, noCandidates bool
	persistErr             string
}

// New makes an evictor, with the conditions that an earlier daemon left. It
// starts nothing.
func New(cfg Config) *Evictor {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Evictor{cfg: cfg, log: cfg.Log, tracker: NewTracker(cfg.Thresholds, cfg.Transition), stale: true}
	e.storageScan.done = make(chan map[types.UID]Disk)
	e.restore()
	return e
}

// Times of looking.
const (
	// period is the time between two looks at the disks, the kubelet's for
	// all. A look is a system call a file system.
	interval = 10 * time.Second
	// nearest is the least time between two looks at memory if nobody tells of
	// it.
	minInterval = time.Second
	// fastest is how fast memory is thought to go at most, in bytes a second,
	// if nobody tells of it: the next look comes before the threshold could be
	// crossed at that speed, but for the last second.
	maxMemoryRate = 200 << 20
	// pause is the least time between two looks that somebody asked for.
	burstPause = 100 * time.Millisecond
	// endTimeout is how long the end of a pod is waited for, the kubelet's.
	endTimeout = 30 * time.Second
	// measureTimeout is how long it may take to learn what pods use: memory
	// does not wait for a runtime that hangs.
	measureTimeout = 3 * time.Second
	// fruitlessPause is how long nothing is tried again after nothing helped.
	futilePause = time.Minute
	// limitsPeriod is the time between two measurements of pods with limits of
	// local storage; whoever measures may make it longer.
	scanInterval = 10 * time.Second
)

// Run relieves the node until ctx ends.
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
			// Others may be there to be ended, or to be kept within limits.
			e.stale = true
			if !e.lastFutile.IsZero() {
				e.lastFutile = time.Time{}
				timer.Reset(minInterval)
			}
			continue
		case e.storageScan.disks = <-e.storageScan.done:
			e.storageScan.running = false
		case <-alarm:
			// What wakes in bursts is heard once.
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(burstPause):
			}
		case <-timer.C:
		}
		timer.Reset(e.pass(ctx))
	}
}

// restore takes up the conditions that an earlier daemon left. From now on they
// last for the whole transition time.
func (e *Evictor) restore() {
	list, err := loadState(e.cfg.File, e.cfg.Boot)
	if err != nil {
		e.log.Warn("Could not load node pressure state", "file", e.cfg.File, "err", err)
	}
	for _, c := range list {
		e.tracker.Restore(c, time.Now())
	}
}

// pass looks, relieves the node of what is short, and returns when to look
// again.
func (e *Evictor) pass(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		e.observe()
		e.mu.Lock()
		active := e.tracker.Active()
		e.mu.Unlock()
		e.report(active)
		// Memory does not wait. A disk is better relieved of who has too much.
		memory := active != nil && active.Signal.isMemory()
		if !(memory && e.relieve(ctx, *active)) && !e.enforceLimits(ctx) && (active == nil || memory || !e.relieve(ctx, *active)) {
			break
		}
		// It helped: look whether that was enough.
		e.disksCheckedAt = time.Time{}
	}
	e.startStorageScan(ctx)
	return e.next()
}

// look measures and passes on what changed.
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
	var on []v1.NodeConditionType
	for _, c := range Conditions {
		if e.tracker.Under(c) {
			on = append(on, c)
		}
	}
	e.mu.Unlock()
	if !changed {
		return
	}
	e.persist(on)
	if !first || len(on) > 0 {
		e.log.Info("Node pressure conditions changed", "conditions", on)
	}
	e.cfg.Pods.Recheck()
}

func (e *Evictor) persist(on []v1.NodeConditionType) {
	fault := ""
	if err := saveState(e.cfg.File, e.cfg.Boot, on); err != nil {
		fault = err.Error()
	}
	if fault != "" && fault != e.persistErr {
		e.log.Warn("Failed to persist node pressure state", "file", e.cfg.File, "err", fault)
	}
	e.persistErr = fault
}

// next is when to look again if nobody tells.
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
