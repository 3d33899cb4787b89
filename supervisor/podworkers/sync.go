package podworkers

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/supervisor/status"
)

// Syncer syncs pods. M is what it remembers of one pod from sync to sync.
type Syncer[M any] interface {
	// Sync does what the job's state asks for, once. The memory belongs to the
	// worker of the pod: it is the zero value at the first sync of the worker, no
	// two syncs of a worker run at once, and nothing else reads it. The context
	// ends when the worker has decided something that makes the sync obsolete.
	Sync(ctx context.Context, job SyncJob, memory *M) SyncResult
}

// SyncJob is one sync to do, with a copy of what it needs.
type SyncJob struct {
	State State
	// Run counts the runs of the UID, from 0.
	Run int
	// Desired: a source wants the pod. Restart: another run follows this one.
	Desired, Restart bool
	// Pod is the revision to sync: the newest one, or while a run ends the one that
	// it was last synced with. It is nil for a pod that no source ever delivered.
	Pod *v1.Pod
	// Found is what is known of an orphan; nil if the pod is none.
	Found *v1.Pod
	// Kill is the decision that ends the run, nil without one.
	Kill *KillOrder
	// Grace is the grace period in seconds, at least 1.
	Grace int64
	// NotBefore is when a queued run may start; zero is at once.
	NotBefore time.Time
	// Paused: no sync may use the runtime now. A terminating pod gets one such job in each pause, only to
	// report what its end waits for; its result is ignored.
	Paused bool
	// Notified receives when the worker became dirty meanwhile. A sync that takes
	// long may receive from it; the worker syncs again afterwards in any case.
	Notified <-chan struct{}
}

// SyncResult is the result of a sync.
type SyncResult struct {
	Err error
	// EventSent: an event already reports Err.
	EventSent bool
	// Ended: the pod's restartPolicy has ended it. Disrupted: the node had ended it,
	// before this daemon started.
	Ended, Disrupted bool
	// Restart: a disrupted pod may run again.
	Restart bool
	// Replace is set if what runs is a revision that cannot become the desired
	// one in place.
	Replace *KillOrder
	// Held: the pod waits until another client's pod ends or the node accepts it.
	Held bool
	// Parked: the pod waits to be notified, and is not synced before. A terminating pod
	// that is parked was not stopped.
	Parked bool
	// After is the time to the next sync, 0 for the usual one. The next sync happens
	// at Due at the latest, unless that is zero.
	After time.Duration
	Due   time.Time
}

// WithError returns the result with another error joined to its own; nil adds
// nothing.
func (r SyncResult) WithError(err error) SyncResult {
	if err != nil {
		r.Err = errors.Join(r.Err, err)
	}
	return r
}

// KillOrder is a decision to end a pod.
type KillOrder struct {
	Reason  KillReason
	Message string
	// Grace is in seconds; nil is the pod's own grace period.
	Grace *int64
	// Disruption is set if the node ends the pod for its own sake.
	Disruption *status.Disruption
}

// KillReason is why a pod is ended.
type KillReason string

// The reasons to end a pod.
const (
	KillRemoved   KillReason = "Removed"
	KillOrphan    KillReason = "Orphaned"
	KillRestart   KillReason = "Restart"
	KillDeleted   KillReason = "Deleted"
	KillDisrupted KillReason = "Disrupted"
)
