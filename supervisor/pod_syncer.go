package supervisor

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/gc"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/projectquota"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/pleg"
	"github.com/podstead/podstead/supervisor/podephemeral"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podprobes"
	"github.com/podstead/podstead/supervisor/podresize"
	"github.com/podstead/podstead/supervisor/podstart"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/runtimehealth"
	"github.com/podstead/podstead/supervisor/status"
	"github.com/podstead/podstead/supervisor/volume"
)

// podSyncer syncs pods for their workers: SyncPod, SyncTerminatingPod and
// SyncTerminatedPod, each an attempt whose numbered steps are methods. It joins the
// parts that the steps use, and keeps nothing of a run: that is in the runState of
// the worker. Each field is one concern of the steps, so that there are many.
type podSyncer struct {
	runtime      podRuntime
	inputs       *podinputs.Resolver
	revisions    *syncedRevisions
	reservations *admit.Reservations
	records      *runRecords
	ephemeral    *podephemeral.Store
	statuses     *statusPublisher
	probes       *podprobes.Pods
	resizer      *podresize.Resizer
	deadlines    deadlines
	startChecker *startChecker
	admission    *reservationResource
	resources    *noderesources.List
	order        startOrder
	disruptions  *disruptions
	files        podFiles
	reports
}

// init fills in the podSyncer. The workers exist already and call nothing
// before they are started: they need the podSyncer, and the reservations need them.
func (s *podSyncer) init(cfg *Config, runtime *runtimehealth.Monitor, reg *registry, workers *podworkers.Workers) {
	volumes := &volume.Volumes{
		Root: cfg.Paths.pods(), Claims: cfg.Paths.claims(), Bindings: cfg.Paths.bindings(), Disk: cfg.Store.Disk,
		OnNode: cfg.Node.Matches, PodName: func(uid types.UID) string { return podName(workers, uid) },
		Quotas: &projectquota.Kernel{},
	}
	if cfg.Sources.CSI != nil {
		volumes.CSI = cfg.Sources.CSI
	}
	s.reports = reports{log: cfg.Log, events: cfg.Events, metrics: cfg.Metrics, trace: cfg.Trace,
		durations: &podstart.Durations{}}
	s.runtime = podRuntime{observer: cfg.Runtime.Observer, syncer: cfg.Runtime.Syncer}
	s.inputs = newResolver(cfg, volumes)
	s.revisions = &syncedRevisions{inputs: s.inputs}
	s.reservations = admit.NewReservations(cfg.Allocatable, cfg.Node.Labels, cfg.Runtime.Observer.Observed, workers.Notify)
	s.reservations.OnPreview(cfg.Sources.Rollouts.RetryPreparations)
	s.records = &runRecords{records: cfg.Store.Records, backoff: cfg.Runtime.Backoff, log: cfg.Log}
	s.ephemeral = cfg.Store.Ephemeral
	s.probes = &podprobes.Pods{Prober: cfg.Sources.Probes, Addresses: cfg.Network.HostIPs.Addresses}
	s.statuses = &statusPublisher{
		runtime: runtime, hostIPs: cfg.Network.HostIPs, sources: cfg.Sources.Pods, rollouts: cfg.Sources.Rollouts,
		inputs: s.inputs,
		probes: s.probes, records: s.records, store: cfg.Store.Statuses, changed: s.order.Published,
	}
	s.deadlines = deadlines{mark: cfg.mark}
	s.startChecker = &startChecker{
		observer: cfg.Runtime.Observer, runtime: runtime, node: &cfg.Node, inputs: s.inputs, registry: reg,
		events: cfg.Events,
	}
	s.admission = &reservationResource{reservations: s.reservations, inputs: s.inputs, disrupt: workers.Disrupt,
		log: cfg.Log}
	s.disruptions = &disruptions{registry: reg, reports: s.reports}
	s.files = podFiles{
		volumes: volumes,
		logs:    gc.Files{Logs: cfg.Paths.PodLogs, Links: cfg.Paths.ContainerLogs, Messages: s.inputs.MessagesDir},
	}
	s.resources = noderesources.New(cfg.Resources(&OwnResources{
		Reservations: s.admission, Volumes: &volumeResource{inputs: s.inputs, volumes: volumes, csi: cfg.Sources.CSI,
			durations: s.durations},
		Probes: s.probes, Logs: &logResource{files: s.files.logs},
	}))
	s.statuses.resources = s.resources
	s.resizer = &podresize.Resizer{Resources: s.resources, Reservations: s.reservations, Events: cfg.Events}
	s.ready = cfg.Sources.Ready
}

// podName returns the namespace and the name of a pod as its manifest has it; empty if only its
// directory is left.
func podName(workers *podworkers.Workers, uid types.UID) string {
	for _, view := range workers.Views() {
		if view.Pod.UID == uid {
			return view.Pod.Namespace + "/" + manifest.BaseName(view.Pod)
		}
	}
	return ""
}

// Sync implements podworkers.Syncer: one attempt to do what the job's state asks
// for.
func (s *podSyncer) Sync(ctx context.Context, job podworkers.SyncJob, run *runState) podworkers.SyncResult {
	a := s.newAttempt(job, run)
	if !run.begun || run.number != job.Run {
		a.beginRun()
	}
	if job.Paused {
		(&terminatingAttempt{a}).reportPause(ctx)
		return podworkers.SyncResult{}
	}
	began := time.Now()
	endSpan := func(error) {}
	if name := spanOf(job.State); name != "" && s.trace != nil {
		ctx, endSpan = s.trace(ctx, name, a.pod)
	}
	var result podworkers.SyncResult
	switch job.State {
	case podworkers.Queued:
		a.publishQueued()
	case podworkers.Syncing:
		result = a.syncWithDeadline(ctx)
	case podworkers.Terminating:
		result = (&terminatingAttempt{a}).sync(ctx)
	case podworkers.Terminated:
		result = (&terminatedAttempt{a}).sync(ctx)
	case podworkers.Finished:
		result = (&finishedAttempt{a}).sync(ctx)
	}
	if operation := operationOf(job.State, run); operation != "" {
		s.metrics.PodSynced(operation, time.Since(began))
	}
	endSpan(result.Err)
	s.logError(ctx, a, result)
	return result
}

// spanOf returns the name of the span of a sync; empty for one that calls no other process.
func spanOf(state podworkers.State) string {
	switch state {
	case podworkers.Syncing:
		return "syncPod"
	case podworkers.Terminating:
		return "syncTerminatingPod"
	case podworkers.Terminated:
		return "syncTerminatedPod"
	default:
		return ""
	}
}

// attempt is one sync of one pod: the job, what its worker remembers, and what is
// observed of it. The attempts of the states embed it.
type attempt struct {
	*podSyncer
	job podworkers.SyncJob
	run *runState
	// pod is the revision that is synced, with its classes resolved while it runs;
	// for an orphan it is what its containers show.
	pod    *v1.Pod
	policy podinfo.SourcePolicy
	// observed is the newest observation of the pod; nil before the first.
	observed *cri.PodStatus
}

func (s *podSyncer) newAttempt(job podworkers.SyncJob, run *runState) *attempt {
	pod := job.Pod
	if pod == nil {
		pod = job.Found
	}
	pod = s.ephemeral.With(pod)
	return &attempt{podSyncer: s, job: job, run: run, pod: pod, policy: podinfo.PolicyOf(pod)}
}

// observe waits for an observation of the pod that shows the last act.
func (a *attempt) observe(ctx context.Context) error {
	observed, err := a.runtime.observe(ctx, a.pod.UID, a.run.lastAct)
	if err != nil {
		return err
	}
	a.observed = observed
	return nil
}

// noteAct notes that the runtime was asked to change something, and requests an
// observation of the result.
func (a *attempt) noteAct() {
	a.run.lastAct = time.Now()
	a.runtime.observer.Relist(a.pod.UID)
}

// remove removes dead containers and sandboxes.
func (a *attempt) remove(ctx context.Context, dead *cri.Pod) error {
	err := a.runtime.remove(ctx, dead)
	a.noteAct()
	return err
}

// save writes the pod's record if it changed.
func (a *attempt) save() { a.records.save(a.pod.UID, a.run) }

// publish generates the pod's status, puts it into the store and reports what
// changed.
func (a *attempt) publish(overrides statusOverrides) *v1.PodStatus {
	before := a.run.previous
	st, stored := a.statuses.publish(a.pod, a.run, a.observed, overrides)
	if stored {
		a.reportStatus(a, before, st)
	}
	return st
}

// publishQueued shows a pod that waits for its name or its time. Before the first
// observation nothing is published: it could only be wrong.
func (a *attempt) publishQueued() {
	if a.runtime.observer.Observed().At.IsZero() {
		return
	}
	a.reservations.Queued(a.pod)
	cause := &status.Cause{Reason: reasonPredecessor, Message: "the previous pod of this name is still terminating"}
	if a.job.NotBefore.After(time.Now()) {
		a.reservations.Withdraw(a.pod.UID)
		cause = &status.Cause{Reason: reasonNotBefore,
			Message: "the pod is restarted at " + a.job.NotBefore.Format(time.RFC3339)}
	}
	a.observed = &cri.PodStatus{UID: a.pod.UID}
	a.publish(statusOverrides{waitingFor: cause, queued: true})
}

// podFiles are the files that pods leave on this host.
type podFiles struct {
	volumes   *volume.Volumes
	reclaimer *volumeReclaimer
	logs      gc.Files
}

// podRuntime observes pods and acts on them through the runtime.
type podRuntime struct {
	observer *pleg.PLEG
	syncer   *cri.Syncer
}

// observe waits for an observation of a pod that is newer than the last act.
func (r podRuntime) observe(ctx context.Context, uid types.UID, lastAct time.Time) (*cri.PodStatus, error) {
	observed, err := r.observer.NewerThan(ctx, uid, lastAct)
	if err != nil {
		return nil, fmt.Errorf("failed to observe pod: %w", err)
	}
	return observed, nil
}

func (r podRuntime) remove(ctx context.Context, dead *cri.Pod) error {
	if err := r.syncer.Remove(ctx, dead); err != nil {
		return fmt.Errorf("failed to remove containers and sandboxes: %w", err)
	}
	return nil
}
