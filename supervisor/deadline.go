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

// Reason and message of a pod that exceeded its activeDeadlineSeconds, the
// kubelet's.
const (
	reasonDeadline  = "DeadlineExceeded"
	deadlineMessage = "Pod was active on the node longer than the specified deadline"
)

var errDeadline = errors.New("the pod exceeded its activeDeadlineSeconds")

// deadlines computes when activeDeadlineSeconds are over. They count from the pod's
// start, which is in the record: neither a restart of the daemon nor one of its
// containers extends them. A clock that is set neither extends nor shortens them.
// (At the kubelet it does.)
type deadlines struct {
	// mark returns the time since the boot, if that is known.
	mark func() (wallclock.Mark, bool)
}

// due returns when the deadline of a pod is over, zero if it has none.
func (d deadlines) due(pod *v1.Pod, r *runState) time.Time {
	if pod.Spec.ActiveDeadlineSeconds == nil || r.record.StartTime.IsZero() {
		return time.Time{}
	}
	if r.startedAt.IsZero() {
		now := time.Now()
		here, known := d.mark()
		r.startedAt = now.Add(-wallclock.Passed(r.record.StartTime, r.record.Start, now, here, known))
	}
	return r.startedAt.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// begin starts to count.
func (d deadlines) begin(r *runState) {
	now := time.Now()
	r.record.StartTime = now.Truncate(time.Second)
	if here, known := d.mark(); known {
		here.Up -= now.Sub(r.record.StartTime)
		r.record.Start = &here
	}
}

// exceeded returns the end of a pod whose deadline is over, nil for other pods.
func (d deadlines) exceeded(pod *v1.Pod, r *runState) *status.Terminal {
	if due := d.due(pod, r); due.IsZero() || time.Now().Before(due) {
		return nil
	}
	return &status.Terminal{Phase: v1.PodFailed, Cause: status.Cause{Reason: reasonDeadline, Message: deadlineMessage}}
}

// syncWithDeadline is SyncPod with the pod's deadline: it interrupts what takes
// longer, and syncs the pod again at that time. (The kubelet checks every 10 s or
// more.)
func (a *attempt) syncWithDeadline(ctx context.Context) podworkers.SyncResult {
	if a.pod.Spec.ActiveDeadlineSeconds != nil && a.run.record.StartTime.IsZero() {
		a.deadlines.begin(a.run)
	}
	if due := a.deadlines.due(a.pod, a.run); time.Now().Before(due) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, due, errDeadline)
		defer cancel()
	}
	result := (&syncAttempt{attempt: a}).sync(ctx)
	if result.Err != nil {
		a.reservations.Withdraw(a.pod.UID)
	}
	result.Due = a.deadlines.due(a.pod, a.run)
	return result
}

// forcedEnd returns the end that the source or the deadline decides for a pod, nil
// without one.
func (a *attempt) forcedEnd() *status.Terminal {
	if st := &a.pod.Status; a.policy.StatusFromSource && podinfo.IsTerminal(st.Phase) {
		return &status.Terminal{Phase: st.Phase, Cause: status.Cause{Reason: st.Reason, Message: st.Message}}
	}
	return a.deadlines.exceeded(a.pod, a.run)
}

// deadlineText returns why a pod is terminated, for users.
func deadlineText(pod *v1.Pod) string {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return "its deadline is exceeded"
	}
	return fmt.Sprintf("it was active for longer than its activeDeadlineSeconds, %d", *pod.Spec.ActiveDeadlineSeconds)
}
