package supervisor

import (
	"context"

	"github.com/podstead/podstead/supervisor/podworkers"
)

// terminatedAttempt is one SyncTerminatedPod: it removes what a stopped pod has on
// this host. When it is done the pod's name is free.
type terminatedAttempt struct{ *attempt }

func (a *terminatedAttempt) sync(ctx context.Context) podworkers.SyncResult {
	a.order.Stopped(a.pod)
	err := a.resources.Release(ctx, a.pod.UID, a.job.Restart)
	a.reportKillFault(ctx, err)
	if err != nil {
		return podworkers.SyncResult{Err: err}
	}
	a.logEnd(a.attempt)
	if !a.job.Desired {
		// The record goes with the pod; saving it would only delay the pods that
		// wait for the name.
		return podworkers.SyncResult{}
	}
	if err := a.publishEnded(ctx); err != nil || a.job.Restart {
		return podworkers.SyncResult{Err: err}
	}
	a.save()
	return podworkers.SyncResult{}
}

// finishedAttempt syncs a pod of which nothing runs any more and that does not wait
// to run: it publishes the last status of a desired pod, or restarts it, and removes
// the rest of a pod that no source wants.
type finishedAttempt struct{ *attempt }

func (a *finishedAttempt) sync(ctx context.Context) podworkers.SyncResult {
	if !a.job.Desired {
		err := a.removeAll(ctx)
		a.reportKillFault(ctx, err)
		return podworkers.SyncResult{Err: err}
	}
	if err := a.publishEnded(ctx); err != nil {
		return podworkers.SyncResult{Err: err}
	}
	return a.disruptions.restart(a.attempt)
}

// removeAll removes all that is left of a pod that no source wants. The record goes
// last: as long as it exists, a later daemon knows that the pod's logs are its own.
func (a *finishedAttempt) removeAll(ctx context.Context) error {
	uid := a.pod.UID
	if err := a.observe(ctx); err != nil {
		return err
	}
	if len(a.observed.Containers)+len(a.observed.Sandboxes) > 0 {
		if err := a.remove(ctx, a.observed.Pod()); err != nil {
			return err
		}
		if err := a.observe(ctx); err != nil {
			return err
		}
	}
	if err := a.resources.Forget(ctx, uid); err != nil {
		return err
	}
	a.runtime.syncer.Forget(uid)
	a.durations.Forget(uid)
	a.statuses.forget(uid)
	a.revisions.forget(uid)
	if err := a.ephemeral.Remove(uid); err != nil {
		return err
	}
	return a.records.records.Delete(uid)
}

// publishEnded publishes the status of a pod of which nothing runs any more.
func (a *attempt) publishEnded(ctx context.Context) error {
	if err := a.observe(ctx); err != nil {
		return err
	}
	a.publish(statusOverrides{ended: true})
	return nil
}
