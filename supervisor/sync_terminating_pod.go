package supervisor

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/podorder"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// terminatingAttempt is one SyncTerminatingPod: it stops everything of a pod that
// runs, and reports the pod as stopped only after an observation newer than the kill.
type terminatingAttempt struct{ *attempt }

func (a *terminatingAttempt) sync(ctx context.Context) podworkers.SyncResult {
	a.reservations.Terminating(a.pod.UID)
	a.resources.Withdraw(a.pod.UID)
	if err := a.observe(ctx); err != nil {
		return podworkers.SyncResult{Err: err}
	}
	a.publishTerminating()
	if !a.mustStop() {
		return podworkers.SyncResult{Err: a.unprepare(ctx)}
	}
	if wait := a.awaitDependents(); wait != nil {
		return *wait
	}
	if err := a.stop(ctx); err != nil {
		return podworkers.SyncResult{Err: err}
	}
	return podworkers.SyncResult{Err: a.confirmStopped(ctx)}
}

// reportPause reports that the pod cannot be stopped while the runtime is down. Nothing is published of a pod
// that this daemon has not observed yet.
func (a *terminatingAttempt) reportPause(ctx context.Context) {
	fault, healthy := a.statuses.runtime.Healthy()
	if shown := a.run.kill.fault; healthy || shown != nil && shown.Reason == cri.ReasonFailedKillPod {
		return
	}
	if observed, known := a.runtime.observer.Status(a.pod.UID); known {
		a.observed = observed
		a.reportKillFault(ctx, errors.New(fault))
	}
}

// 1. publishTerminating stops the probes that could kill a container, and publishes
// the status with the phase that a disruption decides.
func (a *terminatingAttempt) publishTerminating() {
	a.probes.Stop(a.pod.UID)
	a.probes.Set(a.pod, a.observed, a.run.record)
	a.publish(statusOverrides{terminal: a.disruptions.terminal(a.attempt)})
}

// 2. mustStop reports whether anything is to be stopped. A sandbox that died by
// itself may still have an address or host ports that a successor needs: when the
// pod has to go, it is stopped too.
func (a *terminatingAttempt) mustStop() bool {
	deadSandbox := a.job.Kill != nil && !a.run.kill.done && len(a.observed.Sandboxes) > 0
	return a.observed.Pod().Running() || deadSandbox
}

// 3. awaitDependents lets the pods terminate first that depend on this one and
// terminate too; nil if none is awaited. The status shows what the pod waits for.
func (a *terminatingAttempt) awaitDependents() *podworkers.SyncResult {
	names, again := a.order.endBlock(a.attempt)
	fault := &a.run.kill.fault
	if len(names) == 0 {
		if *fault != nil && (*fault).Reason == podorder.ReasonDependents {
			*fault = nil
		}
		return nil
	}
	cause := podorder.DependentsCause(names)
	if *fault == nil || **fault != cause {
		a.log.Info("Pod terminates after the pods that depend on it", "pod", podinfo.FullName(a.pod), "uid", a.pod.UID,
			"dependents", names)
		*fault = &cause
		a.publish(statusOverrides{acting: true})
	}
	return &podworkers.SyncResult{Parked: true, Due: again}
}

// 4. stop stops the containers and sandboxes.
func (a *terminatingAttempt) stop(ctx context.Context) (err error) {
	a.logKill(a.attempt)
	request := cri.KillRequest{Pod: a.job.Pod, Observed: a.observed.Pod(), Grace: a.job.Grace, Reason: a.killText(),
		HostIP: a.probes.HostIP()}
	a.withStatusRefresh(ctx, func(progress actProgress) {
		request.Queued = func() {
			progress.queued(cri.Waiting{Reason: "Terminating", Message: "waiting for the stops of other pods"})
		}
		err = a.runtime.syncer.Kill(ctx, request)
	})
	a.noteAct()
	a.reportKillFault(ctx, err)
	if err != nil {
		return fmt.Errorf("failed to stop pod: %w", err)
	}
	a.run.kill.done = true
	return nil
}

// 5. confirmStopped gives back what a stopped pod must not have and publishes the end, after an observation
// has shown it.
func (a *terminatingAttempt) confirmStopped(ctx context.Context) error {
	if err := a.observe(ctx); err != nil {
		return err
	}
	if a.observed.Pod().Running() {
		return errors.New("failed to stop pod: a container or sandbox is still running after it was stopped")
	}
	if err := a.unprepare(ctx); err != nil {
		return err
	}
	a.publish(statusOverrides{ended: true})
	return nil
}

// unprepare gives back what a pod must not have any more when it counts as stopped.
func (a *terminatingAttempt) unprepare(ctx context.Context) error {
	err := a.resources.Unprepare(ctx, a.pod.UID)
	if err != nil {
		a.reportKillFault(ctx, err)
	}
	return err
}

// reportKillFault shows in an event and in the status why a pod could not be stopped
// or removed; nil clears it.
func (a *attempt) reportKillFault(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		a.run.kill.fault = nil
		return
	}
	a.events.Event(a.pod, v1.EventTypeWarning, cri.ReasonFailedKillPod, "error killing pod: "+err.Error())
	a.run.kill.fault = &status.Cause{Reason: cri.ReasonFailedKillPod, Message: "error killing pod: " + err.Error()}
	if a.observed != nil || a.observe(ctx) == nil {
		a.publish(statusOverrides{acting: true})
	}
}

// killText returns why a pod is terminated, for users.
func (a *attempt) killText() string {
	switch {
	case a.job.Kill != nil:
		return a.job.Kill.Message
	case a.run.record.Reason == reasonDeadline:
		return deadlineText(a.pod)
	}
	return "its restartPolicy has ended it"
}
