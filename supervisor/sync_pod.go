package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// Reasons of events, the kubelet's where it has them.
const (
	reasonNetworkNotReady = "NetworkNotReady"
	reasonFailedSandbox   = "FailedCreatePodSandBox"
	reasonSandboxError    = "CreatePodSandboxError"
	// reasonNameTaken: another client's pod has the name, and a person has to
	// decide; reasonPredecessor: an earlier revision is still ending;
	// reasonNotBefore: a rerun's time has not come.
	reasonNameTaken   = podworkers.ReasonNameTaken
	reasonPredecessor = "WaitingForPredecessor"
	reasonNotBefore   = "WaitingToRunAgain"
)

// networkBackoff is the wait for a network that is not ready.
const networkBackoff = time.Second

// errNetworkNotReady is not logged per pod: the runtime's state is, once.
var errNetworkNotReady = errors.New("network of the runtime is not ready")

// actsInARow is how many Syncs may act one right after the other. A pod that
// needs more is not settling, and is looked at once a second only.
const actsInARow = 10

// syncPod brings a pod nearer to what is wanted. It is one transaction: it
// looks, decides, acts, and is run again when something changed.
func (s *podSyncer) syncPod(ctx context.Context, j podworkers.SyncJob, r *runState) podworkers.SyncResult {
	// What it refers to, before anything is made of it: what comes later wakes it.
	s.seenObjects.Store(j.Pod.UID, s.inputs.ObjectsRevision(j.Pod))
	resolved := s.inputs.Resolve(j.Pod)
	pod := resolved.Pod
	j.Pod = pod
	// 1. What is observed, with everything this worker did before.
	observed, err := s.observe(ctx, pod.UID, r)
	if err != nil {
		return podworkers.SyncResult{Err: err}
	}
	// 2. Nothing of an earlier run or of another revision goes on.
	if r.purgePrevious && (r.clearLogs || !keepsHistory(pod, observed)) {
		if observed, err = s.purge(ctx, observed, r); err != nil {
			return podworkers.SyncResult{Err: err}
		}
	}
	r.purgePrevious = false
	if order := replaces(pod, observed); order != nil {
		return podworkers.SyncResult{Replace: order}
	}
	if r.noRecord {
		r.record, r.noRecord = assumeHooked(pod, observed, r.record), false
	}
	// 3. The status, and whether the pod has come to its end.
	s.setProbes(pod, observed, r.record)
	st := s.publish(j, r, observed, statusOverrides{terminal: s.forcedEnd(pod, r)})
	if podinfo.IsTerminal(st.Phase) {
		return s.ended(j, r)
	}
	if len(r.record.PendingRestart) > 0 || pod.Spec.ActiveDeadlineSeconds != nil || hasPostStart(pod) {
		// Written before containers are removed: without it what is left could
		// look like a pod that has ended. And before any is started: from here
		// on a deadline counts, and a hook that is broken off is known to be.
		s.save(pod.UID, r)
	}
	// 4. What a new sandbox would need. A pod that has one goes on without.
	if !sandboxReady(observed) {
		if out, waits := s.awaitObjects(j, r, func(sh statusOverrides) { s.publish(j, r, observed, sh) }); waits {
			return out
		}
		if resolved.Fault != nil {
			s.reservations.Withdraw(pod.UID)
			return s.hold(j, r, observed, resolved.Fault)
		}
		if out, ok := s.checkStart(j, r, observed); !ok {
			return out
		}
		r.lastHold = status.Cause{}
	}
	// 5. Other resources of what runs, and the pod's cgroup. What
	// runs goes on in the one it has.
	pod, resizes := s.beginResize(pod, observed, r)
	cgroup, out, cgroupFault := s.ensureCgroup(ctx, j, pod, r, observed)
	if out != nil {
		return *out
	}
	// 6. Folders and volumes.
	inputs, volumeFault := s.inputs.Prepare(ctx, pod)
	if volumeFault != nil {
		s.cfg.Events.Event(pod, v1.EventTypeWarning, podinputs.ReasonFailedMount, volumeFault.Error())
		if !sandboxReady(observed) {
			// The kubelet leaves it to the event to say what a pod waits for.
			s.publish(j, r, observed, statusOverrides{waitingFor: &status.Cause{Reason: podinputs.ReasonFailedMount, Message: volumeFault.Error()}})
			return podworkers.SyncResult{Err: volumeFault, EventSent: true}
		}
		// Here the kubelet restarts nothing in the pod any more, and kills
		// nothing that hangs. But only what mounts the volume has to wait.
	}
	// 7. The containers.
	req := cri.SyncRequest{Credentials: s.inputs.PullCredentials(pod), Pod: pod, Status: observed, ResolveInputs: inputs, MinRestartCounts: restartCounts(r.record)}
	// The loader has judged it; what a pod without a loader says wrong counts not.
	req.MaxRestartPeriod, _ = podinfo.MaxRestartPeriod(pod)
	req.PostStartDone, req.HostIP = r.record.PostStart, s.hostIP()
	req.FailedProbes, req.Started = s.failedProbes(pod.UID), s.startedContainers(pod.UID)
	req.ChangedObjects, req.Held = s.inputs.ChangedContainers(pod, observed), s.unsupportedEphemeral(pod)
	var sandboxFault error
	if req.Sandbox, sandboxFault = s.inputs.SandboxInputs(pod, sandboxReady(observed)); sandboxFault != nil {
		message := "Failed to create pod sandbox: " + sandboxFault.Error()
		s.cfg.Events.Event(pod, v1.EventTypeWarning, reasonFailedSandbox, message)
		if !sandboxReady(observed) {
			s.publish(j, r, observed, statusOverrides{waitingFor: &status.Cause{Reason: reasonSandboxError, Message: message}})
			return podworkers.SyncResult{Err: sandboxFault, EventSent: true}
		}
		// What runs can be ended; nothing can be made for the sandbox.
		req.ResolveInputs = func(context.Context, *v1.Container, []string) (cri.Inputs, error) { return cri.Inputs{}, sandboxFault }
	}
	req.Sandbox.CgroupParent = cgroup
	req.Resizes = resizes
	req.Sandbox.RuntimeHandler = resolved.RuntimeHandler
	var result cri.SyncResult
	observed = s.withStatusRefresh(ctx, j, r, observed, func() { result = s.cfg.Runtime.Syncer.Sync(ctx, req) })
	// 8. What came of it. After an act, and after an error that may hide one,
	// nothing is decided before the runtime was looked at again.
	r.waiting = result.Waiting
	r.record = withPostStart(r.record, result.PostStartDone)
	cgroupFault = errors.Join(cgroupFault, s.endResize(ctx, j, r, observed, resizes, &result))
	acted := result.Acted || result.Err != nil
	if acted {
		s.noteAct(pod.UID, r)
	}
	s.publish(j, r, observed, statusOverrides{acting: acted})
	s.save(pod.UID, r)
	return s.afterSync(result, r).WithError(errors.Join(cgroupFault, volumeFault, sandboxFault))
}

// afterSync is when to look again.
func (s *podSyncer) afterSync(result cri.SyncResult, r *runState) podworkers.SyncResult {
	out := podworkers.SyncResult{Err: result.Err, After: result.RetryAfter, EventSent: len(result.Waiting) > 0}
	if result.Err != nil {
		r.consecutiveActs = 0
		return out
	}
	if !result.Acted {
		r.consecutiveActs = 0
		return out
	}
	// An act is followed by a look, whether or not an event tells of it.
	r.consecutiveActs++
	out.After = time.Nanosecond
	if r.consecutiveActs > actsInARow {
		out.After = time.Second
	}
	return out
}

// mayStart reports whether a sandbox may be made now, and if not what to do.
func (s *podSyncer) checkStart(j podworkers.SyncJob, r *runState, observed *cri.PodStatus) (podworkers.SyncResult, bool) {
	pod := j.Pod
	all := s.cfg.Runtime.Observer.Observed()
	if all.At.IsZero() {
		// The first full list is under way; without it nobody knows whether
		// another pod of this name runs.
		return podworkers.SyncResult{Held: true, After: runtimeBackoffMin}, false
	}
	asks := false
	defer func() {
		if !asks {
			s.reservations.Withdraw(pod.UID)
		}
	}()
	if cause := s.unsupported(pod); cause != nil {
		return s.hold(j, r, observed, cause), false
	}
	if refusal := admit.Check(pod, &s.cfg.Node); refusal != nil {
		return s.reject(j, r, observed, &status.Cause{Reason: refusal.Reason, Message: refusal.Message}), false
	}
	if notice := admit.SELinuxIgnored(pod, &s.cfg.Node); notice != nil {
		s.cfg.Events.Event(pod, v1.EventTypeWarning, notice.Reason, notice.Message)
	}
	if cause := nameTaken(pod, all); cause != nil {
		s.publish(j, r, observed, statusOverrides{waitingFor: cause})
		if cause.Reason == reasonNameTaken {
			s.cfg.Events.Event(pod, v1.EventTypeWarning, cause.Reason, cause.Message)
		}
		return podworkers.SyncResult{Held: true, After: podworkers.Jitter(podworkers.ErrorBackoff)}, false
	}
	if message, ready := s.runtime.networkReady(); !ready && !pod.Spec.HostNetwork {
		cause := &status.Cause{Reason: reasonNetworkNotReady, Message: fmt.Sprintf("network is not ready: %s", message)}
		s.publish(j, r, observed, statusOverrides{waitingFor: cause})
		s.cfg.Events.Event(pod, v1.EventTypeWarning, cause.Reason, cause.Message)
		return podworkers.SyncResult{Err: errNetworkNotReady, After: podworkers.Jitter(networkBackoff)}, false
	}
	if cause := s.inputs.MissingHostIP(pod); cause != nil {
		s.publish(j, r, observed, statusOverrides{waitingFor: cause})
		s.cfg.Events.Event(pod, v1.EventTypeWarning, cause.Reason, cause.Message)
		return podworkers.SyncResult{Held: true}, false
	}
	if closed := s.registry.closedGate(pod); closed != nil {
		return s.reject(j, r, observed, closed), false
	}
	asks = true
	return s.admit(j, r, observed)
}

// refuse shows why a pod does not start here. The kubelet calls it Failed for
// good. Here it waits for another manifest, or a daemon with other settings. It is
// looked at whenever something ends, and told once.
func (s *podSyncer) hold(j podworkers.SyncJob, r *runState, observed *cri.PodStatus, cause *status.Cause) podworkers.SyncResult {
	s.publish(j, r, observed, statusOverrides{waitingFor: cause})
	if r.lastHold != *cause {
		r.lastHold = *cause
		s.cfg.Events.Event(j.Pod, v1.EventTypeWarning, cause.Reason, cause.Message)
	}
	return podworkers.SyncResult{Held: true}
}

// nameTaken tells of a live pod of the same full name that is not this one: a
// stopped kubelet's, another daemon's, or one of ours that no source wants and
// that is not yet allowed to be ended. Two of them could share a data folder.
func nameTaken(pod *v1.Pod, all *cri.Observed) *status.Cause {
	for _, other := range all.Own {
		if other.UID != pod.UID && other.Name == pod.Name && other.Namespace == pod.Namespace && other.Running() {
			return &status.Cause{Reason: reasonPredecessor, Message: fmt.Sprintf(
				"an earlier revision of the pod (UID %s) still runs; this one starts when it has ended", other.UID)}
		}
	}
	for _, other := range all.Foreign {
		switch {
		case other.Name != pod.Name || other.Namespace != pod.Namespace:
		case other.Running():
			return &status.Cause{Reason: reasonNameTaken, Message: fmt.Sprintf(
				"pod %s runs already and is not of this podstead (UID %s); stop whoever keeps it and end it with: %s",
				other.FullName(), other.UID, endCommand(other))}
		case other.UID == pod.UID && len(other.Sandboxes) > 0:
			// Another podstead's, from the same manifest. The runtime keeps
			// the names of a sandbox and its containers, which are made of
			// the UID, until they are removed.
			return &status.Cause{Reason: reasonNameTaken, Message: fmt.Sprintf(
				"pod %s ran under another podstead (UID %s), whose remains have its name; remove them with: crictl rmp%s",
				other.FullName(), other.UID, sandboxIDs(other, false))}
		}
	}
	return nil
}

// endCommand is what a person types to end another client's pod.
func endCommand(pod *cri.Pod) string {
	if ids := sandboxIDs(pod, true); ids != "" {
		return "crictl stopp" + ids
	}
	command := "crictl stop"
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.State == cri.StateRunning || c.State == cri.StateUnknown {
			command += " " + c.ID
		}
	}
	return command
}

// sandboxIDs are those of all sandboxes, or of the ready ones, each after a
// space.
func sandboxIDs(pod *cri.Pod, ready bool) string {
	ids := ""
	for _, sandbox := range pod.Sandboxes {
		if sandbox.Ready || !ready {
			ids += " " + sandbox.ID
		}
	}
	return ids
}

// replaces is the order to end what runs if it is a revision that cannot
// become the wanted one in place: a uid set in the manifest, and an edit while
// the daemon was away. The template hash on the sandbox tells.
func replaces(pod *v1.Pod, observed *cri.PodStatus) *podworkers.KillOrder {
	if podinfo.IsAPI(pod) || len(observed.Sandboxes) == 0 || !sandboxReady(observed) && len(observed.Containers) == 0 {
		return nil
	}
	running := observed.Sandboxes[0].Annotations[podinfo.AnnotationTemplate]
	wanted := pod.Annotations[podinfo.AnnotationTemplate]
	renamed := observed.Name != pod.Name || observed.Namespace != pod.Namespace
	if running == "" || wanted == "" || running == wanted && !renamed {
		return nil
	}
	grace := foundGrace(observed.Pod())
	return &podworkers.KillOrder{Reason: podworkers.KillRestart, Message: "its manifest changed", Grace: &grace}
}

func sandboxReady(observed *cri.PodStatus) bool {
	for i := range observed.Sandboxes {
		if observed.Sandboxes[i].Ready {
			return true
		}
	}
	return false
}

func restartCounts(rec status.Record) map[string]int {
	if len(rec.RestartCounts) == 0 {
		return nil
	}
	counts := make(map[string]int, len(rec.RestartCounts))
	for name, n := range rec.RestartCounts {
		counts[name] = int(n)
	}
	return counts
}
