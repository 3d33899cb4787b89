package supervisor

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podprobes"
	"github.com/podstead/podstead/supervisor/podresize"
	"github.com/podstead/podstead/supervisor/podstart"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// Reasons of a sandbox that cannot be created, the kubelet's.
const (
	reasonFailedSandbox = "FailedCreatePodSandBox"
)

// stepVolumes is the step of a start that prepares the volumes; the others are those of cri.
const stepVolumes = "volumes"

// maxConsecutiveActs is how many Syncs may act one right after the other. A pod that
// needs more does not settle, and is synced once a second only.
const maxConsecutiveActs = 10

// syncAttempt is one SyncPod: it brings a pod closer to its specification. It is a
// transaction: it observes, decides and acts once, and the pod is synced again when
// something has changed.
type syncAttempt struct {
	*attempt
	resolved *podinputs.Resolved
	// allocated is the pod with the resources that its containers are to have now:
	// others than the desired ones while the node lacks capacity for a resize.
	allocated *v1.Pod
	// start is the sync as the node's resources see it.
	start   noderesources.Start
	request cri.SyncRequest
	result  cri.SyncResult
	// faults leave what runs alone.
	faults []error
}

// sync performs the steps in order. A step that returns a result ends the attempt.
func (a *syncAttempt) sync(ctx context.Context) podworkers.SyncResult {
	for _, step := range []func(context.Context) *podworkers.SyncResult{
		a.resolve, a.endPrevious, a.planResize, a.publishObserved, a.startAllowed, a.allocate,
		a.prepareResources, a.prepareSandbox, a.syncContainers,
	} {
		if result := step(ctx); result != nil {
			return *result
		}
	}
	return a.complete()
}

// 1. resolve resolves the pod's classes, and notes the revision of what the pod
// refers to before any of it is used: a later change notifies the pod.
func (a *syncAttempt) resolve(context.Context) *podworkers.SyncResult {
	a.revisions.note(a.pod)
	a.resolved = a.inputs.Resolve(a.pod)
	a.pod = a.resolved.Pod
	return nil
}

// 2. endPrevious observes the pod with everything that this worker did before, and
// lets nothing of a previous run or of another revision go on.
func (a *syncAttempt) endPrevious(ctx context.Context) *podworkers.SyncResult {
	if err := a.observe(ctx); err != nil {
		return &podworkers.SyncResult{Err: err}
	}
	if a.run.inherited.purge {
		err := a.purgePreviousRun(ctx)
		a.reportKillFault(ctx, err)
		if err != nil {
			// What is left of the previous run reports nothing about this one.
			a.observed = &cri.PodStatus{UID: a.pod.UID}
			a.publish(statusOverrides{acting: true})
			return &podworkers.SyncResult{Err: err, EventSent: true}
		}
	}
	a.run.inherited.purge = false
	if order := replacement(a.pod, a.policy, a.observed); order != nil {
		return &podworkers.SyncResult{Replace: order}
	}
	if a.run.inherited.noRecord {
		a.run.record, a.run.inherited.noRecord = podprobes.AssumePostStartDone(a.pod, a.observed, a.run.record), false
	}
	return nil
}

// 3. planResize decides about a resize of what runs. The status that is published next
// reports that this revision was observed, and has to show its resize.
func (a *syncAttempt) planResize(context.Context) *podworkers.SyncResult {
	if !a.observed.HasReadySandbox() || a.run.record.Terminal() || a.forcedEnd() != nil {
		return nil
	}
	if a.run.resizes().Desired(a.pod) && a.statuses.ends(a.pod, a.run, a.observed) {
		return nil
	}
	a.allocated, a.request.Resizes = a.resizer.Begin(a.pod, a.observed, a.run.resizes(), a.save)
	return nil
}

// 4. publishObserved publishes the status, and ends the attempt if the pod has ended.
func (a *syncAttempt) publishObserved(context.Context) *podworkers.SyncResult {
	a.probes.Set(a.pod, a.observed, a.run.record)
	if a.observed.HasReadySandbox() {
		a.run.hold.shown = nil
	}
	st := a.publish(statusOverrides{terminal: a.forcedEnd(), waitingFor: a.run.hold.shown})
	if podinfo.IsTerminal(st.Phase) {
		return a.ended()
	}
	if len(a.run.record.PendingRestart) > 0 || a.pod.Spec.ActiveDeadlineSeconds != nil || podprobes.HasPostStart(a.pod) {
		// Saved before containers are removed: otherwise the rest could look like a
		// pod that has ended. And before any is started: from here on a deadline
		// counts, and a hook that is interrupted is known to be.
		a.save()
	}
	return nil
}

// 5. startAllowed checks what a new sandbox needs, and reserves what the pod needs of the node. A pod that has
// a sandbox goes on without.
func (a *syncAttempt) startAllowed(ctx context.Context) *podworkers.SyncResult {
	a.start.Pod, a.start.Observed, a.start.Resources = a.pod, a.observed, a.resources
	if a.observed.HasReadySandbox() {
		return nil
	}
	block := a.awaitObjects()
	if block == nil && a.resolved.Fault != nil {
		block = noderesources.Held(a.resolved.Fault)
	}
	if block == nil {
		block = a.startChecker.check(a.pod)
	}
	if block == nil {
		block = a.order.startBlock(a.pod)
	}
	if block != nil {
		if !block.KeepsPlace {
			a.resources.Withdraw(a.pod.UID)
		}
		return a.refuse(ctx, block)
	}
	a.start.Requests, a.start.Since = a.requests(), a.run.record.StartTime
	if refusal := a.resources.Reserve(ctx, &a.start); refusal != nil {
		return a.refuse(ctx, refusal)
	}
	a.run.hold.last = status.Cause{}
	if a.run.hold.shown != nil {
		// The start may take minutes, in which the pod is not held any more.
		a.run.hold.shown = nil
		a.publish(statusOverrides{})
	}
	return nil
}

// 6. allocate decides which resources the containers of a pod that starts have.
func (a *syncAttempt) allocate(context.Context) *podworkers.SyncResult {
	if a.allocated == nil {
		a.allocated, a.request.Resizes = a.resizer.Begin(a.pod, a.observed, a.run.resizes(), a.save)
	}
	a.start.Allocated, a.start.Limits = a.allocated, a.run.resizes().Widest(a.allocated)
	return nil
}

// 7. prepareResources prepares what the pod needs of the node.
func (a *syncAttempt) prepareResources(ctx context.Context) *podworkers.SyncResult {
	noted := false
	for _, r := range a.resources.Preparers() {
		refusal := r.Prepare(ctx, &a.start)
		if a.start.LimitsApplied && !noted {
			// The attempt may take minutes, and its end may not come.
			noted = true
			a.noteLimits()
		}
		if refusal == nil {
			continue
		}
		if result := a.refuse(ctx, refusal); result != nil {
			return result
		}
	}
	if !noted && a.start.LimitsFault == nil {
		a.noteLimits()
	}
	return nil
}

// noteLimits records that the host enforces the pod's limits.
func (a *syncAttempt) noteLimits() {
	if a.run.resizes().NoteCgroup(a.start.Limits) {
		a.save()
	}
}

// 8. prepareSandbox resolves the settings of a new sandbox.
func (a *syncAttempt) prepareSandbox(context.Context) *podworkers.SyncResult {
	sandbox, fault := a.inputs.SandboxInputs(a.allocated, a.observed.HasReadySandbox())
	sandbox.CgroupParent, sandbox.RuntimeHandler = a.start.Sandbox.CgroupParent, a.resolved.RuntimeHandler
	a.request.Sandbox, a.request.ResolveInputs, a.request.Assigned = sandbox, a.start.Inputs, a.start.Assigned
	if fault == nil {
		return nil
	}
	message := "Failed to create pod sandbox: " + fault.Error()
	a.events.Event(a.pod, v1.EventTypeWarning, reasonFailedSandbox, message)
	if !a.observed.HasReadySandbox() {
		a.publish(statusOverrides{waitingFor: &status.Cause{Reason: podstart.ReasonSandboxError, Message: message}})
		return &podworkers.SyncResult{Err: fault, EventSent: true}
	}
	// Containers that run can still be stopped, but none can be created.
	a.faults = append(a.faults, fault)
	a.request.ResolveInputs = func(context.Context, *v1.Container, []string) (cri.Inputs, error) {
		return cri.Inputs{},
			fault
	}
	return nil
}

// 9. syncContainers lets the runtime stop, create and start.
func (a *syncAttempt) syncContainers(ctx context.Context) *podworkers.SyncResult {
	pod, uid, req := a.allocated, a.pod.UID, &a.request
	req.Pod, req.Status, req.Credentials = pod, a.observed, a.inputs.PullCredentials(pod)
	req.MinRestartCounts = minRestartCounts(a.run.record)
	// The loader has reported a wrong value; here it has no effect.
	req.MaxRestartPeriod, _ = podinfo.MaxRestartPeriod(pod)
	req.PostStartDone, req.HostIP = a.run.record.PostStart, a.probes.HostIP()
	req.FailedProbes, req.Started = a.probes.Failed(uid), a.probes.Started(uid)
	req.Ran = a.run.record.Ran(pod)
	req.ChangedObjects, req.Held = a.inputs.ChangedContainers(pod, a.observed), unsupportedEphemeral(pod)
	known := a.run.record.Killed
	a.noteKilled(req)
	a.withStatusRefresh(ctx, func(progress actProgress) {
		req.Queued, req.SandboxReady = progress.queued, progress.sandboxReady
		a.result = a.runtime.syncer.Sync(ctx, *req)
	})
	a.takeBackKilled(known)
	for _, step := range a.result.Steps {
		a.durations.Add(uid, step.Name, step.Took)
		if step.Name == cri.StepSandbox && req.Sandbox.Users != nil {
			a.metrics.UserNamespacedPodStarted(a.result.Err)
		}
	}
	a.run.waiting = a.result.Waiting
	a.run.record = podprobes.WithPostStart(a.run.record, a.result.PostStartDone)
	done := &podresize.Executed{Pod: a.pod, Observed: a.observed, Requested: req.Resizes, Result: &a.result,
		CgroupFault: a.start.LimitsFault}
	if err := a.resizer.End(ctx, a.run.resizes(), done); err != nil && a.start.LimitsFault == nil {
		a.faults = append(a.faults, err)
	}
	return nil
}

// refuse shows in the pod's status and in an event why it does not start. It is the end of the attempt,
// unless only a fault was found and the pod has a sandbox: then the result is nil.
func (a *syncAttempt) refuse(ctx context.Context, refusal *noderesources.Refusal) *podworkers.SyncResult {
	if refusal.GivesBack {
		a.resources.GiveBack(ctx, a.pod.UID)
	}
	cause := refusal.Cause
	if cause == nil {
		return &refusal.Result
	}
	if refusal.Final && a.policy.Rejects && !a.reservations.Holds(a.pod.UID) {
		return a.reject(cause)
	}
	if refusal.Fault {
		return a.refuseForFault(refusal)
	}
	a.run.hold.shown = cause
	a.publish(statusOverrides{waitingFor: cause})
	eventType, reported := v1.EventTypeWarning, *cause
	if refusal.Notice != "" {
		eventType, reported.Message = v1.EventTypeNormal, refusal.Notice
	}
	if refusal.Event == noderesources.EachTime || refusal.Event == noderesources.OncePerCause &&
		a.run.hold.last != reported {
		a.events.Event(a.pod, eventType, reported.Reason, reported.Message)
	}
	if refusal.Event == noderesources.OncePerCause {
		a.run.hold.last = reported
	}
	if refusal.Save {
		a.save()
	}
	return &refusal.Result
}

// refuseForFault shows a fault of the node until the next attempt. A pod that has a sandbox goes on.
func (a *syncAttempt) refuseForFault(refusal *noderesources.Refusal) *podworkers.SyncResult {
	if refusal.Event != noderesources.NoEvent {
		a.events.Event(a.pod, v1.EventTypeWarning, refusal.Cause.Reason, refusal.Cause.Message)
	}
	if a.observed.HasReadySandbox() {
		a.faults = append(a.faults, refusal.Result.Err)
		return nil
	}
	a.publish(statusOverrides{waitingFor: refusal.Cause})
	return &refusal.Result
}

// complete publishes and saves what came of the attempt. After an act, and after an
// error that may hide one, nothing is decided before the runtime was observed again.
func (a *syncAttempt) complete() podworkers.SyncResult {
	acted := a.result.Acted || a.result.Err != nil
	if acted {
		a.noteAct()
	}
	a.publish(statusOverrides{acting: acted})
	a.save()
	return a.nextSync().WithError(errors.Join(a.faults...))
}

// nextSync returns when to sync the pod again.
func (a *syncAttempt) nextSync() podworkers.SyncResult {
	next := podworkers.SyncResult{Err: a.result.Err, After: a.result.RetryAfter, EventSent: len(a.result.Waiting) > 0}
	if a.result.Err != nil || !a.result.Acted {
		a.run.consecutiveActs = 0
		return next
	}
	// An act is followed by a sync, whether or not an event reports it.
	a.run.consecutiveActs++
	next.After = time.Nanosecond
	if a.run.consecutiveActs > maxConsecutiveActs {
		next.After = time.Second
	}
	return next
}

// ended is the result for a pod that its restartPolicy, its deadline or a rejection
// has ended. That is saved before anything else happens: from here on neither a
// restarted daemon nor a runtime that has lost everything starts the pod again.
func (a *syncAttempt) ended() *podworkers.SyncResult {
	a.save()
	if a.run.record.Reason == reasonDeadline {
		a.events.Event(a.pod, v1.EventTypeNormal, reasonDeadline, deadlineMessage)
	}
	return &podworkers.SyncResult{Ended: true, Disrupted: a.run.record.Disruption != nil}
}
