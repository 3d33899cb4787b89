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
	Machine     Machine
	Alarm       Alarm
	Pods        Pods
	Meter       Meter
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
	looked bool

	// What follows is Run's alone.
	levels Levels
	// diskLooked is when the disks were last looked at, memoryLooked the
	// memory.
	diskLooked time.Time
	limited    []*v1.Pod
	// stale: pods may have changed since limited was made.
	stale   bool
	weighed weighing
	// fruitless is when nothing could be done last.
	fruitless time.Time
	// met is what was told to be short, hopeless that nothing helps, unkept why
	// the file could not be written.
	met            Signal
	told, hopeless bool
	unkept         string
}

// New makes an evictor, with the conditions that an earlier daemon left. It
// starts nothing.
func New(cfg Config) *Evictor {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Evictor{cfg: cfg, log: cfg.Log, tracker: NewTracker(cfg.Thresholds, cfg.Transition), stale: true}
	e.weighed.done = make(chan map[types.UID]Disk)
	e.restore()
	return e
}

// Times of looking.
const (
	// period is the time between two looks at the disks, the kubelet's for
	// all. A look is a system call a file system.
	period = 10 * time.Second
	// nearest is the least time between two looks at memory if nobody tells of
	// it.
	nearest = time.Second
	// fastest is how fast memory is thought to go at most, in bytes a second,
	// if nobody tells of it: the next look comes before the threshold could be
	// crossed at that speed, but for the last second.
	fastest = 200 << 20
	// pause is the least time between two looks that somebody asked for.
	pause = 100 * time.Millisecond
	// endTimeout is how long the end of a pod is waited for, the kubelet's.
	endTimeout = 30 * time.Second
	// measureTimeout is how long it may take to learn what pods use: memory
	// does not wait for a runtime that hangs.
	measureTimeout = 3 * time.Second
	// fruitlessPause is how long nothing is tried again after nothing helped.
	fruitlessPause = time.Minute
	// limitsPeriod is the time between two measurements of pods with limits of
	// local storage; whoever measures may make it longer.
	limitsPeriod = 10 * time.Second
)

// Run relieves the node until ctx ends.
func (e *Evictor) Run(ctx context.Context) error {
	changed, cancel := e.cfg.Pods.Changed()
	defer cancel()
	defer e.weighed.all.Wait()
	var alarm <-chan struct{}
	if e.cfg.Alarm != nil {
		alarm = e.cfg.Alarm.C()
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
			if !e.fruitless.IsZero() {
				e.fruitless = time.Time{}
				timer.Reset(nearest)
			}
			continue
		case e.weighed.disks = <-e.weighed.done:
			e.weighed.busy = false
		case <-alarm:
			// What wakes in bursts is heard once.
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
		case <-timer.C:
		}
		timer.Reset(e.pass(ctx))
	}
}

// restore takes up the conditions that an earlier daemon left. From now on they
// last for the whole transition time.
func (e *Evictor) restore() {
	list, err := load(e.cfg.File, e.cfg.Boot)
	if err != nil {
		e.log.Warn("pressure of before the restart is forgotten", "file", e.cfg.File, "error", err)
	}
	for _, c := range list {
		e.tracker.Begin(c, time.Now())
	}
}

// pass looks, relieves the node of what is short, and returns when to look
// again.
func (e *Evictor) pass(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		e.look()
		e.mu.Lock()
		active := e.tracker.Active()
		e.mu.Unlock()
		e.tell(active)
		// Memory does not wait. A disk is better relieved of who has too much.
		memory := active != nil && active.Signal.isMemory()
		if !(memory && e.relieve(ctx, *active)) && !e.keepLimits(ctx) && (active == nil || memory || !e.relieve(ctx, *active)) {
			break
		}
		// It helped: look whether that was enough.
		e.diskLooked = time.Time{}
	}
	e.weigh(ctx)
	return e.next()
}

// look measures and passes on what changed.
func (e *Evictor) look() {
	now := time.Now()
	e.cfg.Machine.Memory(&e.levels)
	if now.Sub(e.diskLooked) >= period {
		e.diskLooked = now
		e.cfg.Machine.Disk(&e.levels)
		if e.tracker.Watches(PIDAvailable) {
			e.cfg.Machine.PIDs(&e.levels)
		}
	}
	e.mu.Lock()
	changed := e.tracker.Observe(&e.levels, now) || !e.looked
	first := !e.looked
	e.looked = true
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
	e.keep(on)
	if !first || len(on) > 0 {
		e.log.Info("pressure on the node has changed", "conditions", on)
	}
	e.cfg.Pods.Recheck()
}

func (e *Evictor) keep(on []v1.NodeConditionType) {
	fault := ""
	if err := keep(e.cfg.File, e.cfg.Boot, on); err != nil {
		fault = err.Error()
	}
	if fault != "" && fault != e.unkept {
		e.log.Warn("a restart of podstead would forget what is short", "file", e.cfg.File, "error", fault)
	}
	e.unkept = fault
}

// next is when to look again if nobody tells.
func (e *Evictor) next() time.Duration {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	wait := max(period-now.Sub(e.diskLooked), pause)
	if after := e.tracker.Next(now); after > 0 {
		wait = min(wait, after)
	}
	if len(e.limited) > 0 && !e.weighed.busy {
		wait = min(wait, max(limitsPeriod-now.Sub(e.weighed.at), pause))
	}
	for _, s := range []Signal{MemoryAvailable, AllocatableMemory} {
		margin, ok := e.tracker.Margin(&e.levels, s)
		if !ok {
			continue
		}
		if e.cfg.Alarm == nil || e.cfg.Alarm.Arm(s, margin) != nil {
			wait = min(wait, max(nearest, time.Duration(float64(margin)/fastest*float64(time.Second))))
		}
	}
	if active := e.tracker.Active(); active != nil && active.Signal.isMemory() && e.fruitless.IsZero() {
		wait = min(wait, nearest)
	}
	return wait
}
