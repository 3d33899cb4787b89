package cri

import (
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// The kubelet's crash-loop back-off.
const (
	backoffInitial = 10 * time.Second
	// DefaultBackoffMax is crashLoopBackOff.maxContainerRestartPeriod.
	DefaultBackoffMax = 300 * time.Second
	// backoffReset is how long a container must have run to reset its back-off.
	backoffReset = 10 * time.Minute
)

// BackoffStep is the state of one container's crash-loop back-off.
type BackoffStep struct {
	// Delay is how long the next restart waits after the container's end.
	Delay time.Duration
	// Updated is the time of the last start.
	Updated time.Time
	// Boot is the boot of the host in which it was counted; empty if it is not known, as in
	// records of earlier versions.
	Boot string `json:",omitempty"`
}

// Backoff delays the restarts of containers that keep exiting: the first restart
// is immediate, the next comes 10 s after the end of the last instance, and each
// later one after twice the time, up to a limit. A container that ran for ten
// minutes, or whose manifest changed, starts over, and so do all after a boot of the
// host: what ended with the host has not failed.
//
// All methods may be called concurrently.
type Backoff struct {
	limit time.Duration
	boot  string

	mu   sync.Mutex
	pods map[types.UID]map[string]*backoffEntry // by container name
}

// backoffEntry is the state of one container.
type backoffEntry struct {
	revision string
	step     BackoffStep
	// instanceID is the exited instance for which until was computed. until is
	// kept, with its monotonic reading, so that a jump of the wall clock neither
	// extends nor repeats a wait.
	instanceID string
	until      time.Time
}

// NewBackoff creates a Backoff with the longest delay of pods that have no limit
// of their own; 0 means DefaultBackoffMax. boot is the ID of the boot of the host, empty if it
// is not known.
func NewBackoff(limit time.Duration, boot string) *Backoff {
	if limit <= 0 {
		limit = DefaultBackoffMax
	}
	return &Backoff{limit: limit, boot: boot, pods: map[types.UID]map[string]*backoffEntry{}}
}

// longest returns the limit of a pod, given its own, which may be 0.
func (b *Backoff) longest(own time.Duration) time.Duration {
	if own > 0 {
		return own
	}
	return b.limit
}

// revision identifies what a crash loop belongs to: another image, other
// resources or any other change of the manifest starts another loop.
func revision(pod *v1.Pod, c *v1.Container) string {
	return Hash(c) + pod.Annotations[podinfo.AnnotationHash]
}

// wait returns how long a container must still wait, given its newest instance
// that has exited (nil if none), and the full delay. longest is the pod's own
// limit, 0 if it has none.
func (b *Backoff) wait(pod *v1.Pod, c *v1.Container, last *Container, longest time.Duration) (left,
	delay time.Duration) {
	if last == nil {
		return 0, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.pods[pod.UID][c.Name]
	now := time.Now()
	if e == nil || e.revision != revision(pod, c) || e.recovered(last, now) {
		return 0, 0
	}
	// A limit may be lower than it was when the step was recorded.
	delay = min(e.step.Delay, b.longest(longest))
	if e.instanceID != last.ID {
		rest := delay
		if !last.FinishedAt.IsZero() {
			rest = min(last.FinishedAt.Add(rest).Sub(now), rest)
		}
		if passed := now.Sub(e.step.Updated); passed >= 0 {
			// It did not exit before it was started, whatever the clock said
			// then.
			rest = max(rest, delay-passed)
		}
		e.instanceID, e.until = last.ID, now.Add(rest)
	}
	return max(e.until.Sub(now), 0), delay
}

// started counts a restart after the given exited instance, and returns what takes that
// back. A container's first start, with none, does not count.
func (b *Backoff) started(pod *v1.Pod, c *v1.Container, last *Container, longest time.Duration) (undo func()) {
	if last == nil {
		return func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	entries := b.pods[pod.UID]
	if entries == nil {
		entries = map[string]*backoffEntry{}
		b.pods[pod.UID] = entries
	}
	delay, now := backoffInitial, time.Now()
	before := entries[c.Name]
	if before != nil && before.revision == revision(pod, c) && !before.recovered(last, now) {
		delay = 2 * before.step.Delay
	}
	counted := &backoffEntry{
		revision: revision(pod, c),
		step:     BackoffStep{Delay: min(delay, b.longest(longest)), Updated: now, Boot: b.boot},
	}
	entries[c.Name] = counted
	return func() { b.undo(pod.UID, c.Name, counted, before) }
}

// undo puts back the entry of a container from before it was counted, nil if there was
// none, unless there has been a change since.
func (b *Backoff) undo(uid types.UID, name string, counted, before *backoffEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.pods[uid][name] != counted:
	case before == nil:
		delete(b.pods[uid], name)
	default:
		b.pods[uid][name] = before
	}
}

// recovered reports whether an instance ran long enough to reset the back-off.
// The runtime's times come from a clock that may have been set meanwhile: no
// instance ran longer than the time since the step, which this daemon measures
// with the monotonic clock.
func (e *backoffEntry) recovered(last *Container, now time.Time) bool {
	if passed := now.Sub(e.step.Updated); passed >= 0 && passed <= backoffReset {
		return false
	}
	return last.FinishedAt.Sub(e.step.Updated) > backoffReset ||
		!last.StartedAt.IsZero() && last.FinishedAt.Sub(last.StartedAt) > backoffReset
}

// Steps returns a pod's steps for a durable record, nil if there are none. The
// keys are for Restore only.
func (b *Backoff) Steps(uid types.UID) map[string]BackoffStep {
	b.mu.Lock()
	defer b.mu.Unlock()
	entries := b.pods[uid]
	if len(entries) == 0 {
		return nil
	}
	steps := make(map[string]BackoffStep, len(entries))
	for name, e := range entries {
		step := e.step
		step.Updated = step.Updated.Round(0)
		steps[name+"/"+e.revision] = step
	}
	return steps
}

// Restore replaces the steps of a pod. Invalid ones and those of an earlier boot are ignored.
func (b *Backoff) Restore(uid types.UID, steps map[string]BackoffStep) {
	entries := make(map[string]*backoffEntry, len(steps))
	for key, step := range steps {
		name, revision, ok := strings.Cut(key, "/")
		if !ok || step.Delay <= 0 || b.boot != "" && step.Boot != "" && step.Boot != b.boot {
			continue
		}
		// A pod's own limit may be above the node's; no limit is above this.
		step.Delay = min(step.Delay, max(b.limit, DefaultBackoffMax))
		entries[name] = &backoffEntry{revision: revision, step: step}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods, uid)
	if len(entries) > 0 {
		b.pods[uid] = entries
	}
}

// reset drops the back-off of one container.
func (b *Backoff) reset(uid types.UID, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods[uid], name)
}

// Forget drops the back-offs of a pod.
func (b *Backoff) Forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods, uid)
}
