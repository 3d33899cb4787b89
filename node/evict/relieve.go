package evict

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// report reports once that a threshold is met.
func (e *Evictor) report(active *Threshold) {
	if active == nil || !active.Signal.isDisk() {
		e.mu.Lock()
		e.diskCause = ""
		e.mu.Unlock()
	}
	if active == nil {
		e.reported, e.noCandidates, e.lastFutile = false, false, time.Time{}
		return
	}
	if e.reported && e.reportedSignal == active.Signal {
		return
	}
	e.reported, e.reportedSignal, e.noCandidates, e.lastFutile = true, active.Signal, false, time.Time{}
	level := e.levels[active.Signal]
	e.log.Warn("Eviction threshold met", "signal", active.Signal, "available", amountText(active.Signal, level.Available),
		"threshold", active.Min)
	e.cfg.Events.Event(nil, v1.EventTypeWarning, reasonThresholdMet,
		fmt.Sprintf("Attempting to reclaim %s: %s", active.Signal.Resource(), shortText(active, level)))
}

// shortText describes how short a resource is.
func shortText(t *Threshold, level Level) string {
	return fmt.Sprintf("%s is %s, below the threshold of %s", t.Signal, amountText(t.Signal, level.Available), t.Min)
}

func amountText(s Signal, n int64) string {
	if s.isMemory() || s.Resource() == v1.ResourceEphemeralStorage {
		return formatBytes(n)
	}
	return fmt.Sprint(n)
}

// relieve frees something for a threshold and reports whether it did.
func (e *Evictor) relieve(ctx context.Context, t Threshold) bool {
	if !e.lastFutile.IsZero() && time.Since(e.lastFutile) < futilePause {
		return false
	}
	if t.Signal.isDisk() && e.reclaim(ctx, t) {
		return true
	}
	if e.evictFor(ctx, t) {
		e.lastFutile = time.Time{}
		return true
	}
	e.reportFutile(&t, e.findUsers(ctx, &t))
	e.lastFutile = time.Now()
	return false
}

// reclaim removes unused data from a disk and reports whether the threshold is no
// longer met.
func (e *Evictor) reclaim(ctx context.Context, t Threshold) bool {
	steps := []func() (bool, error){func() (bool, error) {
		n, err := e.cfg.Reclaim.Containers(ctx)
		return n > 0, err
	}}
	if t.Signal.isImageFS() || !e.cfg.Resources.SeparateImageFS() {
		steps = append(steps, func() (bool, error) {
			n, err := e.cfg.Reclaim.Images(ctx)
			return n > 0, err
		})
	}
	for _, step := range steps {
		freed, err := step()
		if err != nil && ctx.Err() == nil {
			e.log.Warn("Could not reclaim all unused disk space", "signal", t.Signal, "err", err)
		}
		if !freed {
			continue
		}
		e.disksCheckedAt = time.Time{}
		e.observe()
		e.mu.Lock()
		active := e.tracker.Active()
		e.mu.Unlock()
		if active == nil || active.Signal != t.Signal {
			return true
		}
	}
	return false
}

// evictFor evicts the first candidate for a threshold and waits until it has
// terminated.
func (e *Evictor) evictFor(ctx context.Context, t Threshold) bool {
	usage := e.measure(ctx, t.Signal)
	usageOf := func(pod *v1.Pod) Usage {
		u := usage[pod.UID]
		if !u.Disk.isCurrent(pod) {
			u.Disk = Disk{}
		}
		return u
	}
	least := leastUse(&t, e.levels[t.Signal])
	for _, c := range Rank(running(e.cfg.Pods.List()), usageOf, t.Signal, e.cfg.Resources.SeparateImageFS()) {
		if c.Used < least {
			continue
		}
		message := fmt.Sprintf("The node was low on resource: %s. %s. The pod used %s and requests %s. It will restart "+
			"once %s has been absent for %s.",
			t.Signal.Resource(), shortText(&t, e.levels[t.Signal]), amountText(t.Signal, c.Used),
			amountText(t.Signal, c.Requested),
			t.Signal.Condition(), e.cfg.Transition)
		order := Eviction{UID: c.Pod.UID, Message: message, Signal: t.Signal.String(), Condition: t.Signal.Condition(),
			Disk: t.Signal.isDisk(), GracePeriod: e.grace(c.Pod, t)}
		if e.evict(ctx, c.Pod, order) {
			return true
		}
	}
	return false
}

// relevantPart is the part of what a threshold keeps free of a disk, below which the
// usage of a pod does not matter.
const relevantPart = 100

// leastUse returns the least usage of a pod whose eviction can relieve a disk. A disk that
// others filled would otherwise cost every pod, and stay full. The number of pods is
// limited, so that many small ones cannot fill it either. It is 0 for other resources,
// since a pod without usage was not measured.
func leastUse(t *Threshold, level Level) int64 {
	if !t.Signal.isDisk() {
		return 0
	}
	return max(t.Min.ForCapacity(level.Capacity)/relevantPart, 1)
}

// reportFutile reports once per threshold that no pod can be evicted, and what fills the disk; users is empty if
// that is unknown.
func (e *Evictor) reportFutile(t *Threshold, users string) {
	if e.noCandidates {
		return
	}
	e.noCandidates = true
	level := e.levels[t.Signal]
	attrs := []any{"signal", t.Signal, "available", amountText(t.Signal, level.Available), "threshold", t.Min}
	if users != "" {
		attrs = append(attrs, "users", users)
	}
	e.log.Warn("Eviction threshold still met, but no pod can be evicted", attrs...)
	if least := leastUse(t, level); least > 0 {
		e.cfg.Events.Event(nil, v1.EventTypeWarning, reasonThresholdMet, fmt.Sprintf("%s, and no pod that may be evicted "+
			"uses at least %s of it: %s. Free space on it; running pods keep running",
			shortText(t, level), amountText(t.Signal, least), filledBy(users)))
	}
}

// measure returns what pods use of the short resource. Pods that cannot be
// measured count as 0, so that priorities decide.
func (e *Evictor) measure(ctx context.Context, s Signal) map[types.UID]Usage {
	var usage map[types.UID]Usage
	var err error
	if s.isDisk() {
		var disks map[types.UID]Disk
		disks, err = e.cfg.Usage.Disks(ctx, scanInterval)
		usage = make(map[types.UID]Usage, len(disks))
		for uid, d := range disks {
			usage[uid] = Usage{Disk: d}
		}
	} else {
		limit, cancel := context.WithTimeout(ctx, measureTimeout)
		defer cancel()
		usage, err = e.cfg.Usage.Running(limit)
	}
	if err != nil && ctx.Err() == nil {
		e.log.Warn("Failed to measure pod usage, ranking pods by priority only", "err", err)
	}
	return usage
}

// running returns the pods that may have running containers.
func running(pods []*v1.Pod) (list []*v1.Pod) {
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || podinfo.IsTerminal(pod.Status.Phase) {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodReadyToStartContainers && c.Status == v1.ConditionTrue {
				list = append(list, pod)
			}
		}
	}
	return list
}

// grace returns the grace period of an eviction: for a hard threshold only as long
// as a SIGTERM takes.
func (e *Evictor) grace(pod *v1.Pod, t Threshold) *int64 {
	grace := int64(1)
	if t.Soft {
		grace = e.cfg.MaxPodGrace
		if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
			grace = min(grace, *own)
		}
	}
	return &grace
}

// evict evicts a pod and reports whether it was running.
func (e *Evictor) evict(ctx context.Context, pod *v1.Pod, order Eviction) bool {
	if err := e.cfg.Pods.Evict(order); err != nil {
		e.log.Debug("Pod not evicted", "pod", pod.Namespace+"/"+pod.Name, "err", err)
		return false
	}
	timeout := endTimeout
	if order.GracePeriod != nil {
		timeout = max(timeout, time.Duration(*order.GracePeriod)*time.Second+endTimeout/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := e.cfg.Pods.WaitEnded(ctx, order.UID); errors.Is(err, context.DeadlineExceeded) {
		e.log.Warn("Evicted pod is still terminating", "pod", pod.Namespace+"/"+pod.Name, "after", timeout)
	}
	return true
}

// storageScan measures the pods with limits of ephemeral storage. It runs
// concurrently: a walk through many files takes seconds, in which memory may run
// out.
type storageScan struct {
	// at is when the last scan began; running reports that one is in progress.
	at      time.Time
	running bool
	done    chan map[types.UID]Disk
	// disks is the result, nil once it was used.
	disks map[types.UID]Disk
	wg    sync.WaitGroup
}

// startStorageScan starts a scan if one is due and a pod has limits.
func (e *Evictor) startStorageScan(ctx context.Context) {
	e.findLimited()
	if w := &e.storageScan; !w.running && len(e.limited) > 0 && (w.at.IsZero() || time.Since(w.at) >= scanInterval) {
		w.running, w.at = true, time.Now()
		w.wg.Go(func() {
			// The measurement reports its errors itself.
			disks, err := e.cfg.Usage.Disks(ctx, scanInterval)
			if err != nil {
				disks = nil
			}
			select {
			case w.done <- disks:
			case <-ctx.Done():
			}
		})
	}
}

// findLimited finds the pods that have limits and may be evicted.
func (e *Evictor) findLimited() {
	if !e.stale {
		return
	}
	e.stale, e.limited = false, nil
	for _, pod := range running(e.cfg.Pods.List()) {
		if HasLimits(pod) && !podinfo.IsCritical(pod) {
			e.limited = append(e.limited, pod)
		}
	}
}

// enforceLimits evicts the pods that exceed their limits and reports whether there
// were any.
func (e *Evictor) enforceLimits(ctx context.Context) (ended bool) {
	disks := e.storageScan.disks
	if e.storageScan.disks = nil; disks == nil {
		return false
	}
	e.findLimited()
	for _, pod := range e.limited {
		d := disks[pod.UID]
		if !d.isCurrent(pod) {
			continue
		}
		if limit, why := OverLimit(pod, d); why != "" {
			grace := int64(1)
			order := Eviction{UID: pod.UID, Signal: limit,
				Message: fmt.Sprintf("%s It will restart in %s.", why, e.cfg.Transition), Disk: true, GracePeriod: &grace}
			ended = e.evict(ctx, pod, order) || ended
		}
	}
	e.stale = e.stale || ended
	return ended
}
