package supervisor

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// Reasons and texts of a shutdown of the host, the kubelet's.
const (
	reasonTerminated    = "Terminated"
	terminatedMessage   = "Pod was terminated in response to imminent node shutdown."
	reasonNodeShutdown  = "NodeShutdown"
	nodeShutdownMessage = "node is shutting down"
)

// Pods that ended for a shutdown return by priority: one waits for those of more
// until they have started, or their start has failed, and no longer than this.
const (
	returnPatience = 20 * time.Second
	returnLook     = 250 * time.Millisecond
)

// hostShutdown is what the supervisor knows of a shutdown of the host. The zero
// value knows of none.
type hostShutdown struct {
	mu sync.Mutex
	// since is when it began, zero if the host stays up.
	since time.Time
	// returning is when the first pod of the last shutdown asked to return.
	returning time.Time
}

func (h *hostShutdown) begun() (since time.Time, begun bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since, !h.since.IsZero()
}

func (h *hostShutdown) set(since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.returning = since, time.Time{}
}

// patient reports whether returning pods still wait for each other.
func (h *hostShutdown) patient() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.returning.IsZero() {
		h.returning = time.Now()
	}
	return time.Since(h.returning) < returnPatience
}

// gate lets no pod start while the host goes down.
func (h *hostShutdown) gate(*v1.Pod) *status.Cause {
	if _, begun := h.begun(); begun {
		return &status.Cause{Reason: reasonNodeShutdown, Message: nodeShutdownMessage}
	}
	return nil
}

// BeginShutdown lets no pod start from here on: the host goes down.
func (s *Supervisor) BeginShutdown() {
	s.shutdown.set(time.Now())
	s.cfg.Events.Event(nil, v1.EventTypeNormal, reasonNodeShutdown, "The host is shutting down; pods are ended in order.")
	s.cfg.Store.Statuses.Touch() // the node is not ready
}

// CancelShutdown lets pods start, and those run again that ended for the
// shutdown: the host stays up.
func (s *Supervisor) CancelShutdown() {
	s.shutdown.set(time.Time{})
	s.cfg.Events.Event(nil, v1.EventTypeNormal, reasonNodeShutdown, "The shutdown of the host was cancelled; pods run again.")
	s.cfg.Store.Statuses.Touch()
	s.RetryDisrupted()
	s.RetryHeld()
}

// GoingDown reports whether the host goes down, as BeginShutdown said.
func (s *Supervisor) ShuttingDown() bool {
	_, begun := s.shutdown.begun()
	return begun
}

// Live are the pods that were taken up and have not ended, with their
// priorities.
func (s *Supervisor) RunningPriorities() map[types.UID]int32 {
	live := map[types.UID]int32{}
	for _, pod := range s.workers.Live() {
		live[pod.UID] = s.priority(pod)
	}
	return live
}

func (s *Supervisor) priority(pod *v1.Pod) int32 {
	return podinfo.Priority(s.podSyncer.inputs.Resolve(pod).Pod)
}

// EndForShutdown ends pods because the host goes down, each within its own grace
// period or the given one if that is less. What is ending already gets no more
// than that either. It does not wait.
func (s *Supervisor) EndForShutdown(uids []types.UID, grace time.Duration) {
	for _, uid := range uids {
		s.workers.DisruptWithin(uid, status.Disruption{Reason: reasonTerminated, Message: terminatedMessage}, max(int64(grace/time.Second), 1))
	}
}

// AwaitEnded waits until the runs of pods have ended, as WaitEnded does.
func (s *Supervisor) WaitAllEnded(ctx context.Context, uids []types.UID) error {
	for _, uid := range uids {
		if err := s.WaitEnded(ctx, uid); err != nil {
			return err
		}
	}
	return nil
}

// mayReturn tells when a pod that ended for a shutdown runs again: after the
// boot, or when the shutdown was cancelled, the one of most priority first. One
// that is never to be restarted does not: what it was at could be half done, and
// its manifest says that it must not be done twice.
func (s *Supervisor) canRestartAfterShutdown(pod *v1.Pod, _ status.Disruption) (now bool, after time.Duration) {
	if _, begun := s.shutdown.begun(); begun || pod.Spec.RestartPolicy == v1.RestartPolicyNever {
		return false, 0
	}
	if s.shutdown.patient() && s.higherPriorityStarting(pod) {
		return false, returnLook
	}
	return true, 0
}

// awaitsGreater reports whether a pod of more priority is still under way.
func (s *Supervisor) higherPriorityStarting(pod *v1.Pod) bool {
	if spoken, _ := s.wanted.allReady(s.cfg.Sources.Pods.Sources()); !spoken {
		return true
	}
	own := s.priority(pod)
	for _, other := range s.wanted.list() {
		if other.UID == pod.UID || s.priority(other) <= own {
			continue
		}
		shown := *other
		shown.Status, _ = s.cfg.Store.Statuses.Get(other.UID)
		if settled, _ := started(&shown); !settled || hasToReturn(&shown) {
			return true
		}
	}
	return false
}

// hasToReturn reports whether a pod shows what it was before the boot.
func hasToReturn(pod *v1.Pod) bool {
	return pod.Spec.RestartPolicy == v1.RestartPolicyAlways && slices.ContainsFunc(pod.Status.ContainerStatuses, func(c v1.ContainerStatus) bool {
		return c.State.Terminated != nil
	})
}
