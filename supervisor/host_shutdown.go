package supervisor

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/podorder"
	"github.com/podstead/podstead/supervisor/podstart"
	"github.com/podstead/podstead/supervisor/status"
)

// Reasons and messages of a node shutdown, as in the kubelet.
const (
	terminatedMessage  = "Pod was terminated in response to imminent node shutdown."
	reasonNodeShutdown = "NodeShutdown"
	// reasonShutdown is that of the node's events.
	reasonShutdown      = "Shutdown"
	nodeShutdownMessage = "node is shutting down"
)

// Pods that ended for a shutdown restart by priority. A pod waits until all pods of a
// higher priority have started, or failed to start, but no longer than
// restartOrderTimeout; it checks every restartOrderInterval.
const (
	restartOrderTimeout  = 20 * time.Second
	restartOrderInterval = 250 * time.Millisecond
)

// hostShutdown is the state of a shutdown of the host. The zero value is no shutdown.
type hostShutdown struct {
	mu sync.Mutex
	// since is when it began, zero if the host stays up.
	since time.Time
	// restarting is when the first pod of the last shutdown was to restart.
	restarting time.Time
	// deadlines are when the periods of the pods are over that end for the shutdown.
	deadlines map[types.UID]time.Time
}

func (h *hostShutdown) begun() (since time.Time, begun bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since, !h.since.IsZero()
}

func (h *hostShutdown) set(since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.restarting, h.deadlines = since, time.Time{}, nil
}

func (h *hostShutdown) setDeadline(uids []types.UID, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deadlines == nil {
		h.deadlines = map[types.UID]time.Time{}
	}
	for _, uid := range uids {
		h.deadlines[uid] = at
	}
}

// deadline returns when the period of a pod is over, zero for one that does not end for
// a shutdown.
func (h *hostShutdown) deadline(uid types.UID) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deadlines[uid]
}

// ordersRestarts reports whether restarting pods still wait for each other.
func (h *hostShutdown) ordersRestarts() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.restarting.IsZero() {
		h.restarting = time.Now()
	}
	return time.Since(h.restarting) < restartOrderTimeout
}

// gate holds every pod while the host shuts down.
func (h *hostShutdown) gate(*v1.Pod) *status.Cause {
	if _, begun := h.begun(); begun {
		return &status.Cause{Reason: reasonNodeShutdown, Message: nodeShutdownMessage}
	}
	return nil
}

// BeginShutdown holds every pod that has not started, and lets stops of pods begin
// without waiting for each other: the host shuts down.
func (s *Supervisor) BeginShutdown() {
	s.shutdown.set(time.Now())
	s.cfg.Runtime.Syncer.HostShutdown(true)
	s.cfg.Events.Event(nil, v1.EventTypeNormal, reasonShutdown,
		"Shutdown manager detected shutdown event, terminating pods in order")
	s.cfg.Store.Statuses.Touch() // the node is no longer ready
}

// CancelShutdown lets pods start again, also those that ended for the shutdown: the
// host stays up.
func (s *Supervisor) CancelShutdown() {
	s.shutdown.set(time.Time{})
	s.cfg.Runtime.Syncer.HostShutdown(false)
	s.cfg.Events.Event(nil, v1.EventTypeNormal, reasonShutdown,
		"Shutdown manager detected shutdown cancellation, restarting pods")
	s.cfg.Store.Statuses.Touch()
	s.RetryDisrupted()
	s.RetryHeld()
}

// ShuttingDown reports whether the host shuts down: BeginShutdown was called.
func (s *Supervisor) ShuttingDown() bool {
	_, begun := s.shutdown.begun()
	return begun
}

// RunningPriorities returns the priorities of the pods that have started and not
// ended.
func (s *Supervisor) RunningPriorities() map[types.UID]int32 {
	priorities := map[types.UID]int32{}
	for _, pod := range s.workers.Live() {
		priorities[pod.UID] = s.priority(pod)
	}
	return priorities
}

func (s *Supervisor) priority(pod *v1.Pod) int32 {
	return podinfo.Priority(s.podSyncer.inputs.Resolve(pod).Pod)
}

// EndForShutdown ends pods because the host shuts down, each within its own grace
// period or the given one if that is shorter. This also shortens the grace period of
// a pod that is ending already. Of the given pods, those that others depend on are
// stopped after them, as far as the grace period allows. It does not wait.
func (s *Supervisor) EndForShutdown(uids []types.UID, grace time.Duration) {
	s.shutdown.setDeadline(uids, time.Now().Add(grace))
	s.order.Together(func() {
		for _, uid := range uids {
			s.workers.DisruptWithin(uid, status.Disruption{Reason: podstart.ReasonTerminated, Message: terminatedMessage},
				max(int64(grace/time.Second), 1))
		}
	})
	s.order.ShutdownBegun()
}

// WaitAllEnded waits until the runs of pods have ended, as WaitEnded does.
func (s *Supervisor) WaitAllEnded(ctx context.Context, uids []types.UID) error {
	for _, uid := range uids {
		if err := s.WaitEnded(ctx, uid); err != nil {
			return err
		}
	}
	return nil
}

// canRestartAfterShutdown is the RestartPolicy of pods that ended for a shutdown: they
// run again after the boot or when the shutdown was cancelled, those of the highest
// priority first. A pod with restartPolicy Never does not: its work could be half
// done, and its manifest specifies that it must not be done twice.
func (s *Supervisor) canRestartAfterShutdown(pod *v1.Pod, _ status.Disruption) (now bool, after time.Duration) {
	if _, begun := s.shutdown.begun(); begun || pod.Spec.RestartPolicy == v1.RestartPolicyNever {
		return false, 0
	}
	if s.shutdown.ordersRestarts() && s.higherPriorityStarting(pod) {
		return false, restartOrderInterval
	}
	return true, 0
}

// higherPriorityStarting reports whether a pod of a higher priority has not started
// yet, nor failed to.
func (s *Supervisor) higherPriorityStarting(pod *v1.Pod) bool {
	if !s.desired.AllReady(s.cfg.Sources.Pods.Sources()) {
		return true
	}
	own := s.priority(pod)
	for _, other := range s.desired.List() {
		if other.UID == pod.UID || s.priority(other) <= own {
			continue
		}
		current := *other
		current.Status, _ = s.cfg.Store.Statuses.Get(other.UID)
		if podorder.Waits(&current.Status) {
			continue // perhaps for the pod itself
		}
		if settled, _ := podstart.Settled(&current); !settled || endedBeforeBoot(&current) {
			return true
		}
	}
	return false
}

// endedBeforeBoot reports whether a pod still has its status from before the boot.
func endedBeforeBoot(pod *v1.Pod) bool {
	return pod.Spec.RestartPolicy == v1.RestartPolicyAlways &&
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(c v1.ContainerStatus) bool {
			return c.State.Terminated != nil
		})
}
