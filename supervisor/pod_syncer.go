package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/event"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
	"github.com/podstead/podstead/supervisor/volume"
)

// podSyncer are the transaction scripts of the workers. It keeps nothing of a
// pod but the fault that its status shows: what a script remembers is in the
// runState of its worker.
type podSyncer struct {
	cfg          Config
	runtime      *runtimeState
	volumes      *volume.Volumes
	inputs       *podinputs.Resolver
	wanted       *podSet
	registry     *registry
	reservations *admit.Reservations
	// displaced ends a pod for the node's own sake.
	disrupt func(uid types.UID, d status.Disruption, grace *int64) error

	// faults are the manifests' faults that statuses show, by UID.
	faults sync.Map
	// seenObjects are the objects with which each pod was last synced, by UID.
	seenObjects sync.Map
}

// do runs the script that belongs to the state.
func (s *podSyncer) Sync(ctx context.Context, j podworkers.SyncJob, r *runState) podworkers.SyncResult {
	if !r.begun || r.number != j.Run {
		s.beginRun(j, r)
	}
	began := time.Now()
	var out podworkers.SyncResult
	switch j.State {
	case podworkers.Queued:
		s.announce(j, r)
	case podworkers.Syncing:
		out = s.syncWithDeadline(ctx, j, r)
	case podworkers.Terminating:
		out = s.syncTerminatingPod(ctx, j, r)
	case podworkers.Terminated:
		out = s.syncTerminatedPod(ctx, j, r)
	case podworkers.Finished:
		if j.Wanted {
			out = s.orRestart(s.showFinished(ctx, j, r), j, r)
		} else {
			out.Err = s.clearRemains(ctx, j, r)
		}
	}
	if operation := operationOf(j.State, r); operation != "" {
		s.cfg.Metrics.PodSynced(operation, time.Since(began))
	}
	s.logOnce(ctx, j, r, out)
	return out
}

// operationOf is what a script is called where its time is counted; a pod that
// only waits has none.
func operationOf(at podworkers.State, r *runState) string {
	switch at {
	case podworkers.Syncing:
		if r.synced {
			return "sync"
		}
		r.synced = true
		return "create"
	case podworkers.Terminating:
		return "kill"
	case podworkers.Terminated:
		return "cleanup"
	}
	return ""
}

// beginRun forgets what belongs to the run before, and takes up what the
// record knows of the pod.
func (s *podSyncer) beginRun(j podworkers.SyncJob, r *runState) {
	again := j.Run > 0 && j.Found == nil
	previous := r.previous
	*r = runState{begun: true, number: j.Run, lastAct: r.lastAct}
	r.record = s.cfg.Store.Records.Load(podUID(j))
	r.noRecord = r.record.StartTime.IsZero()
	if r.noRecord && j.Pod != nil && podinfo.IsAPI(j.Pod) {
		// Another daemon may have run it: the API server knows of that.
		r.record = r.record.Observe(&j.Pod.Status)
		s.save(j.Pod.UID, r)
	}
	if again {
		r.purgePrevious = true
		r.clearLogs = r.record.Disruption != nil && r.record.Disruption.ClearLogs
		r.record = nextRun(r.record, previous)
		s.cfg.Runtime.Syncer.Forget(podUID(j))
	}
	s.cfg.Runtime.Backoff.Restore(podUID(j), r.record.Backoff)
}

// nextRun is the record with which a pod runs again: what ran before counts as
// a restart, and nothing of it is waited for.
func nextRun(rec status.Record, previous *v1.PodStatus) status.Record {
	rec = rec.NewRun()
	rec.Backoff, rec.Ready, rec.PostStart = nil, nil, nil
	if previous == nil {
		return rec
	}
	counts := maps.Clone(rec.RestartCounts)
	if counts == nil {
		counts = map[string]int32{}
	}
	for _, list := range [][]v1.ContainerStatus{previous.InitContainerStatuses, previous.ContainerStatuses} {
		for i := range list {
			if c := &list[i]; c.ContainerID != "" {
				counts[c.Name] = max(counts[c.Name], c.RestartCount+1)
			}
		}
	}
	rec.RestartCounts = counts
	return rec
}

// announce shows a pod that waits for its name or its time. Before anything
// was observed nothing is shown: it could only be wrong.
func (s *podSyncer) announce(j podworkers.SyncJob, r *runState) {
	if s.cfg.Runtime.Observer.Observed().At.IsZero() {
		return
	}
	s.reservations.Queued(j.Pod)
	cause := &status.Cause{Reason: reasonPredecessor, Message: "the pod that had this name before is still ending"}
	if j.NotBefore.After(time.Now()) {
		s.reservations.Withdraw(j.Pod.UID)
		cause = &status.Cause{Reason: reasonNotBefore, Message: "it runs again at " + j.NotBefore.Format(time.RFC3339)}
	}
	s.publish(j, r, &cri.PodStatus{UID: j.Pod.UID}, statusOverrides{waitingFor: cause, queued: true})
}

// noteAct notes that the runtime was asked to change something, and asks for a
// look at the result.
func (s *podSyncer) noteAct(uid types.UID, r *runState) {
	r.lastAct = time.Now()
	s.cfg.Runtime.Observer.Relist(uid)
}

// observe waits for a look at the pod that shows the last act.
func (s *podSyncer) observe(ctx context.Context, uid types.UID, r *runState) (*cri.PodStatus, error) {
	observed, err := s.cfg.Runtime.Observer.NewerThan(ctx, uid, r.lastAct)
	if err != nil {
		return nil, fmt.Errorf("failed to observe pod: %w", err)
	}
	return observed, nil
}

// shown is what a status says besides what was observed.
type statusOverrides struct {
	waitingFor *status.Cause
	ended      bool
	// queued: it has not been taken up, and has no start time.
	queued bool
	// terminal is the end that a decision puts to the pod.
	terminal *status.Terminal
	// rejected: the node does not take it, for good.
	rejected *status.Cause
	// acting: something is being done about the pod. That nothing runs may be
	// a restart half done, and ends nothing.
	acting bool
}

// publish generates the pod's status and puts it into the store.
func (s *podSyncer) publish(j podworkers.SyncJob, r *runState, observed *cri.PodStatus, sh statusOverrides) *v1.PodStatus {
	pod := j.Pod
	if pod == nil {
		pod = j.Found
	}
	in := status.Input{
		Pod:           pod,
		Observed:      observed,
		Record:        r.record,
		Previous:      r.previous,
		Runtime:       s.runtime.runtimeName(),
		Waiting:       r.waiting,
		HostIPs:       s.cfg.Network.HostIPs.Addresses(),
		ManifestFault: s.cfg.Sources.Pods.FaultFor(pod.UID),
		WaitingFor:    sh.waitingFor,
		Terminal:      sh.terminal,
		Resize:        r.resizeStatus,
		Rejected:      sh.rejected,
		Ended:         sh.ended,
		Now:           time.Now(),
	}
	var results probe.Results
	if probes := s.cfg.Sources.Probes; probes != nil {
		results = probes.Results(pod.UID)
	}
	results = withoutUnhooked(pod, observed, r.record, results)
	in.Ready, in.Started = results.Ready, results.Started
	s.faults.Store(pod.UID, in.ManifestFault)
	if missing := s.inputs.MissingObjects(pod); missing != "" {
		in.ManifestFault = strings.TrimPrefix(in.ManifestFault+"\n"+missing, "\n")
	}
	st := status.Generate(in)
	if sh.queued {
		st.StartTime = nil
	}
	if sh.acting && podinfo.IsTerminal(st.Phase) && !r.record.Terminal() {
		return &st
	}
	known := r.record
	r.record = r.record.Observe(&st)
	if r.record.Phase != known.Phase || !maps.Equal(r.record.Ready, known.Ready) && (s.probing(pod) || hasPostStart(pod)) {
		// Written before it is told, or a daemon killed in between would take
		// it back when it returns, or run again what has ended.
		s.save(pod.UID, r)
	}
	s.cfg.Store.Statuses.Set(pod.UID, st)
	s.logExits(j, r, &st)
	if was := r.previous; was != nil && was.Phase == v1.PodPending && st.Phase == v1.PodRunning && st.StartTime != nil {
		s.cfg.Metrics.PodStarted(in.Now.Sub(st.StartTime.Time))
	}
	r.previous = &st
	s.notifyReady(pod.UID, r, &st)
	return &st
}

// tellReady passes on that the pod became ready.
func (s *podSyncer) notifyReady(uid types.UID, r *runState, st *v1.PodStatus) {
	was := r.ready
	r.ready = slices.ContainsFunc(st.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
	if r.ready && !was && s.cfg.Sources.Ready != nil {
		s.cfg.Sources.Ready(uid)
	}
}

// save writes the record if something in it changed. A record that cannot be
// written costs history, never a pod.
func (s *podSyncer) save(uid types.UID, r *runState) {
	r.record.Backoff = s.cfg.Runtime.Backoff.Steps(uid)
	fault := ""
	if _, err := s.cfg.Store.Records.Save(uid, r.record); err != nil {
		fault = err.Error()
	}
	if fault != "" && fault != r.saveFault {
		s.cfg.Log.Warn("history of a pod is not kept", "uid", uid, "error", fault)
	}
	r.saveFault = fault
}

// shownFault is the manifest's fault that the pod's status shows.
func (s *podSyncer) shownFault(uid types.UID) string {
	fault, _ := s.faults.Load(uid)
	text, _ := fault.(string)
	return text
}

// logOnce logs an error when it is another than the last one of the pod, IDs
// of failed sandboxes aside. What an event told already is for debugging only.
func (s *podSyncer) logOnce(ctx context.Context, j podworkers.SyncJob, r *runState, out podworkers.SyncResult) {
	err := out.Err
	if err == nil {
		if r.lastLogged != "" && j.State == podworkers.Syncing {
			r.lastLogged = ""
		}
		return
	}
	kind := event.WithoutIDs(err.Error())
	if ctx.Err() != nil || errors.Is(err, errNetworkNotReady) || kind == r.lastLogged {
		return
	}
	r.lastLogged = kind
	level := slog.LevelWarn
	if out.EventSent {
		level = slog.LevelDebug
	}
	s.cfg.Log.Log(ctx, level, "pod is not as wanted", "pod", podName(j), "uid", podUID(j), "state", j.State, "error", err)
}

func podUID(j podworkers.SyncJob) types.UID {
	if j.Pod != nil {
		return j.Pod.UID
	}
	return j.Found.UID
}

func podName(j podworkers.SyncJob) string {
	if j.Pod != nil {
		return podinfo.FullName(j.Pod)
	}
	return podinfo.FullName(j.Found)
}

// podFrom is what can be told of a pod whose manifest is gone.
func podFrom(found *cri.Pod) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: found.Name, Namespace: found.Namespace, UID: found.UID,
		Annotations: map[string]string{podinfo.AnnotationSource: found.Source},
	}}
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	for i := range found.Containers {
		c := &found.Containers[i]
		if !slices.ContainsFunc(pod.Spec.Containers, func(o v1.Container) bool { return o.Name == c.Name }) {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
		}
	}
	return pod
}

// foundGrace is the longest grace period written on a pod's containers, in seconds.
// The kubelet gives such orphans one second; a database deserves what its manifest
// promised it.
func foundGrace(found *cri.Pod) int64 {
	grace := int64(-1)
	if found != nil {
		for i := range found.Containers {
			if g := found.Containers[i].TerminationGracePeriod; g != nil {
				grace = max(grace, *g)
			}
		}
	}
	if grace < 0 {
		return v1.DefaultTerminationGracePeriodSeconds
	}
	return grace
}
