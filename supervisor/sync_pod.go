package supervisor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
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
	// others than the wanted ones while the node lacks capacity for a resize.
	allocated *v1.Pod
	request   cri.SyncRequest
	result    cri.SyncResult
	// Faults that leave what runs alone.
	cgroupFault, volumeFault, sandboxFault error
}

// sync performs the steps in order. A step that returns a result ends the attempt.
func (a *syncAttempt) sync(ctx context.Context) podworkers.SyncResult {
	for _, step := range []func(context.Context) *podworkers.SyncResult{
		a.resolve, a.endPrevious, a.planResize, a.publishObserved, a.startAllowed, a.allocateDevices, a.allocate, a.prepareVolumes, a.prepareClaims, a.prepareSandbox, a.syncContainers,
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
			// What is left of the previous run says nothing about this one.
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
// says that this revision was observed, and has to show its resize.
func (a *syncAttempt) planResize(context.Context) *podworkers.SyncResult {
	if !a.observed.HasReadySandbox() || a.run.record.Terminal() || a.forcedEnd() != nil {
		return nil
	}
	if a.run.resizes().Wanted(a.pod) && a.statuses.ends(a.pod, a.run, a.observed) {
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

// 5. startAllowed checks what a new sandbox needs. A pod that has a sandbox goes on
// without.
func (a *syncAttempt) startAllowed(context.Context) *podworkers.SyncResult {
	if a.observed.HasReadySandbox() {
		return nil
	}
	block := a.awaitObjects()
	if block == nil && a.resolved.Fault != nil {
		block = heldFor(a.resolved.Fault)
	}
	if block == nil {
		block = a.start.check(a.pod)
	}
	if block == nil {
		block = a.order.startBlock(a.pod)
	}
	if block != nil && !block.keepsPlace {
		a.devices.Withdraw(a.pod.UID)
	}
	if block == nil {
		block = a.devicesBlock()
	}
	if block != nil {
		if !block.keepsPlace {
			a.reservations.Withdraw(a.pod.UID)
		}
		return a.applyBlock(block)
	}
	if block = a.reserve(); block != nil {
		a.devices.Withdraw(a.pod.UID)
		return a.applyBlock(block)
	}
	a.run.hold.last = status.Cause{}
	if a.run.hold.shown != nil {
		// The start may take minutes, in which the pod is not held any more.
		a.run.hold.shown = nil
		a.publish(statusOverrides{})
	}
	return nil
}

// 7. allocate allocates the resources of a pod that starts, and updates the pod's cgroup.
// What runs stays in the cgroup that it has.
func (a *syncAttempt) allocate(ctx context.Context) *podworkers.SyncResult {
	if a.allocated == nil {
		a.allocated, a.request.Resizes = a.resizer.Begin(a.pod, a.observed, a.run.resizes(), a.save)
	}
	wanted := a.run.resizes().Widest(a.allocated)
	parent, err := a.cgroups.ensure(ctx, wanted, a.observed)
	a.request.Sandbox.CgroupParent = parent
	if err == nil {
		if a.run.resizes().NoteCgroup(wanted) {
			// The attempt may take minutes, and its end may not come.
			a.save()
		}
		return nil
	}
	a.cgroupFault = err
	if ctx.Err() == nil {
		a.events.Event(a.pod, v1.EventTypeWarning, podstart.ReasonFailedCgroup, err.Error())
	}
	if a.observed.HasReadySandbox() {
		return nil
	}
	return a.failedStart(podstart.ReasonFailedCgroup, err.Error(), err)
}

// 8. prepareVolumes creates the directories and volumes. Without a volume the
// kubelet restarts nothing in a running pod, and kills nothing that hangs; here only
// the containers wait that mount it.
func (a *syncAttempt) prepareVolumes(ctx context.Context) *podworkers.SyncResult {
	began := time.Now()
	a.request.ResolveInputs, a.volumeFault = a.inputs.Prepare(ctx, a.allocated)
	if len(a.allocated.Spec.Volumes) > 0 {
		a.durations.Add(a.pod.UID, stepVolumes, time.Since(began))
	}
	if a.volumeFault == nil {
		return nil
	}
	if a.observed.HasReadySandbox() && len(a.inputs.AwaitedObjects(a.pod)) > 0 {
		// A daemon that starts gets the objects of a running pod a little later than the pod, and
		// is notified. The containers that mount the volume still wait for it.
		a.volumeFault = nil
		return nil
	}
	a.events.Event(a.pod, v1.EventTypeWarning, podinputs.ReasonFailedMount, a.volumeFault.Error())
	if a.observed.HasReadySandbox() {
		return nil
	}
	// The kubelet leaves it to the event to say what the pod waits for.
	return a.failedStart(podinputs.ReasonFailedMount, a.volumeFault.Error(), a.volumeFault)
}

// 10. prepareSandbox resolves the settings of a new sandbox.
func (a *syncAttempt) prepareSandbox(context.Context) *podworkers.SyncResult {
	parent := a.request.Sandbox.CgroupParent
	a.request.Sandbox, a.sandboxFault = a.inputs.SandboxInputs(a.allocated, a.observed.HasReadySandbox())
	a.request.Sandbox.CgroupParent, a.request.Sandbox.RuntimeHandler = parent, a.resolved.RuntimeHandler
	fault := a.sandboxFault
	if fault == nil {
		return nil
	}
	message := "Failed to create pod sandbox: " + fault.Error()
	a.events.Event(a.pod, v1.EventTypeWarning, reasonFailedSandbox, message)
	if !a.observed.HasReadySandbox() {
		return a.failedStart(podstart.ReasonSandboxError, message, fault)
	}
	// Containers that run can still be stopped, but none can be created.
	a.request.ResolveInputs = func(context.Context, *v1.Container, []string) (cri.Inputs, error) { return cri.Inputs{}, fault }
	return nil
}

// failedStart shows why a pod without a sandbox cannot get one; an event was sent.
func (a *syncAttempt) failedStart(reason, message string, err error) *podworkers.SyncResult {
	a.publish(statusOverrides{waitingFor: &status.Cause{Reason: reason, Message: message}})
	return &podworkers.SyncResult{Err: err, EventSent: true}
}

// 11. syncContainers lets the runtime stop, create and start.
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
	a.withStatusRefresh(ctx, func(queued func(cri.Waiting)) {
		req.Queued = queued
		a.result = a.runtime.syncer.Sync(ctx, *req)
	})
	a.takeBackKilled(known)
	for _, step := range a.result.Steps {
		a.durations.Add(uid, step.Name, step.Took)
	}
	a.run.waiting = a.result.Waiting
	a.run.record = podprobes.WithPostStart(a.run.record, a.result.PostStartDone)
	done := &podresize.Executed{Pod: a.pod, Observed: a.observed, Requested: req.Resizes, Result: &a.result, CgroupFault: a.cgroupFault}
	if err := a.resizer.End(ctx, a.run.resizes(), done); err != nil {
		a.cgroupFault = err
	}
	return nil
}

// noteKilled records which instances the request kills to restart them, before it does.
func (a *syncAttempt) noteKilled(req *cri.SyncRequest) {
	req.Restarting = a.run.record.Restarting(a.observed)
	killed := req.KilledToRestart(a.run.record.Killed)
	if maps.Equal(killed, a.run.record.Killed) {
		return
	}
	a.run.record.Killed = killed
	if len(killed) > 0 {
		a.save()
	}
	req.Restarting = a.run.record.Restarting(a.observed)
}

// takeBackKilled makes the record what it was for the instances that were not killed after
// all: they may still end by themselves, and then their exit codes count. known are those
// of earlier requests, which may still end for those.
func (a *syncAttempt) takeBackKilled(known map[string]cri.KilledInstance) {
	if len(a.result.NotKilled) == 0 {
		return
	}
	killed := maps.Clone(a.run.record.Killed)
	for name, k := range killed {
		before, ok := known[name]
		switch {
		case !slices.Contains(a.result.NotKilled, k.ID):
		case ok && before.ID == k.ID:
			killed[name] = before
		default:
			delete(killed, name)
		}
	}
	a.run.record.Killed = killed
	a.save()
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
	return a.nextSync().WithError(errors.Join(a.cgroupFault, a.volumeFault, a.sandboxFault))
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

// minRestartCounts returns the least restart counts of the containers, by name.
func minRestartCounts(rec status.Record) map[string]int {
	if len(rec.RestartCounts) == 0 {
		return nil
	}
	counts := make(map[string]int, len(rec.RestartCounts))
	for name, n := range rec.RestartCounts {
		counts[name] = int(n)
	}
	return counts
}
