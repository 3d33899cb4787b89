package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// Reason and message of a pod whose activeDeadlineSeconds are over, the
// kubelet's.
const (
	reasonDeadline  = "DeadlineExceeded"
	deadlineMessage = "Pod was active on the node longer than the specified deadline"
)

var errDeadline = errors.New("the pod's activeDeadlineSeconds are over")

// deadline is when a pod's activeDeadlineSeconds are over, zero if it has none.
// They count from its start, which is in the record: neither a restart of the
// daemon nor one of its containers gives it more. A clock that is set gives it
// neither more nor less. (At the kubelet it does.)
func (s *podSyncer) deadline(pod *v1.Pod, r *runState) time.Time {
	if pod.Spec.ActiveDeadlineSeconds == nil || r.record.StartTime.IsZero() {
		return time.Time{}
	}
	if r.startedAt.IsZero() {
		now := time.Now()
		here, known := s.cfg.mark()
		r.startedAt = now.Add(-wallclock.Passed(r.record.StartTime, r.record.Start, now, here, known))
	}
	return r.startedAt.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// beginDeadline begins to count.
func (s *podSyncer) beginDeadline(r *runState) {
	now := time.Now()
	r.record.StartTime = now.Truncate(time.Second)
	if here, known := s.cfg.mark(); known {
		here.Up -= now.Sub(r.record.StartTime)
		r.record.Start = &here
	}
}

// syncWithDeadline is syncPod with the pod's deadline: it breaks off what lasts
// longer, and the worker is woken at that time, not at the next look. (The
// kubelet looks every 10 s or more.)
func (s *podSyncer) syncWithDeadline(ctx context.Context, j podworkers.SyncJob, r *runState) podworkers.SyncResult {
	if j.Pod.Spec.ActiveDeadlineSeconds != nil && r.record.StartTime.IsZero() {
		s.beginDeadline(r)
	}
	if due := s.deadline(j.Pod, r); time.Now().Before(due) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, due, errDeadline)
		defer cancel()
	}
	out := s.syncPod(ctx, j, r)
	if out.Err != nil {
		s.reservations.Withdraw(j.Pod.UID)
	}
	out.Due = s.deadline(j.Pod, r)
	return out
}

// forcedEnd is the end that its deadline puts to a pod, or that an API
// server says it has come to; nil if neither does.
func (s *podSyncer) forcedEnd(pod *v1.Pod, r *runState) *status.Terminal {
	if st := &pod.Status; podinfo.IsAPI(pod) && podinfo.IsTerminal(st.Phase) {
		return &status.Terminal{Phase: st.Phase, Cause: status.Cause{Reason: st.Reason, Message: st.Message}}
	}
	return s.overdue(pod, r)
}

// overdue is the end that the deadline puts to a pod, nil if it does not.
func (s *podSyncer) overdue(pod *v1.Pod, r *runState) *status.Terminal {
	if due := s.deadline(pod, r); due.IsZero() || time.Now().Before(due) {
		return nil
	}
	return &status.Terminal{Phase: v1.PodFailed, Cause: status.Cause{Reason: reasonDeadline, Message: deadlineMessage}}
}

// deadlineText is why a pod ends, for people.
func deadlineText(pod *v1.Pod) string {
	if pod == nil || pod.Spec.ActiveDeadlineSeconds == nil {
		return "its deadline is over"
	}
	return fmt.Sprintf("it was active for longer than its activeDeadlineSeconds, %d", *pod.Spec.ActiveDeadlineSeconds)
}
