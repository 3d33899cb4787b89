package supervisor

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podprobes"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/runtimehealth"
	"github.com/podstead/podstead/supervisor/status"
)

// statusPublisher generates the statuses of pods and puts them into the store.
type statusPublisher struct {
	runtime  *runtimehealth.Monitor
	hostIPs  HostIPs
	sources  PodConfig
	rollouts Rollouts
	inputs   *podinputs.Resolver
	probes   *podprobes.Pods
	records  *runRecords
	// resources report the health of what pods have.
	resources *noderesources.List
	store     Statuses
	// changed is called after the status of a pod changed, and after the first of a run.
	changed func(pod *v1.Pod)

	// faults are the faults of manifests that the statuses show, by UID.
	faults sync.Map
}

// statusOverrides is what a status shows in addition to what was observed.
type statusOverrides struct {
	// waitingFor is why the pod has not started.
	waitingFor *status.Cause
	// ended: nothing of the pod runs any more.
	ended bool
	// queued: the pod was not taken up yet, and has no start time.
	queued bool
	// terminal is the phase that a decision forces on the pod.
	terminal *status.Terminal
	// rejected: the pod did not pass admission, for good.
	rejected *status.Cause
	// acting: an act on the pod is in progress. That nothing runs may be half of a
	// restart, and does not end the pod.
	acting bool
}

// publish generates the pod's status, saves what the record needs of it and stores
// it, without a terminal phase while a container may run. It returns the status with
// the phase that was decided. stored is false if the status is one that an act in
// progress makes unreliable.
func (p *statusPublisher) publish(pod *v1.Pod, r *runState, observed *cri.PodStatus,
	overrides statusOverrides) (st *v1.PodStatus, stored bool) {
	in := p.input(pod, r, observed, overrides)
	decided := status.Generate(in)
	if overrides.queued {
		decided.StartTime = nil
	}
	if overrides.acting && podinfo.IsTerminal(decided.Phase) && !r.record.Terminal() {
		return &decided, false
	}
	p.record(pod, r, &decided)
	published := status.Published(in, decided)
	if p.store.Set(pod.UID, published) || r.previous == nil {
		p.changed(pod)
	}
	r.previous = &published
	p.rollouts.Observe(pod.UID, &published)
	return &decided, true
}

// ends reports whether the pod has ended by what is observed of it.
func (p *statusPublisher) ends(pod *v1.Pod, r *runState, observed *cri.PodStatus) bool {
	return podinfo.IsTerminal(status.Generate(p.input(pod, r, observed, statusOverrides{})).Phase)
}

// input returns everything that the pod's status is generated from.
func (p *statusPublisher) input(pod *v1.Pod, r *runState, observed *cri.PodStatus,
	overrides statusOverrides) status.Input {
	results := p.probes.Results(pod, observed, r.record)
	return status.Input{
		Pod:           pod,
		Observed:      observed,
		Record:        r.record,
		Previous:      r.previous,
		Runtime:       p.runtime.RuntimeName(),
		Waiting:       r.waiting,
		Ready:         results.Ready,
		Started:       results.Started,
		HostIPs:       p.hostIPs.Addresses(),
		ManifestFault: p.manifestFault(pod),
		RevisionHeld:  p.rollouts.HeldFor(pod.UID),
		Outdated:      p.inputs.Outdated(pod, observed),
		WaitingFor:    overrides.waitingFor,
		KillFault:     r.kill.fault,
		Terminal:      overrides.terminal,
		Resize:        r.resizes().Status(),
		Devices:       p.resources.Status(pod.UID),
		Rejected:      overrides.rejected,
		Ended:         overrides.ended,
		Now:           time.Now(),
	}
}

// manifestFault returns the fault of a newer revision of the pod's manifest, and
// the missing objects that the pod refers to.
func (p *statusPublisher) manifestFault(pod *v1.Pod) string {
	fault := p.sources.FaultFor(pod.UID)
	p.faults.Store(pod.UID, p.shownFault(pod.UID))
	if missing := p.inputs.MissingObjects(pod); missing != "" {
		fault = strings.TrimPrefix(fault+"\n"+missing, "\n")
	}
	return fault
}

// shownFault is what the pod's status shows of its manifest, as one text.
func (p *statusPublisher) shownFault(uid types.UID) string {
	text := p.sources.FaultFor(uid)
	if held := p.rollouts.HeldFor(uid); held != nil {
		text += "\x00" + held.Reason + "\x00" + held.Message
	}
	return text
}

// record adds the status to the record. The record is saved before the status is
// published: otherwise a daemon that is killed in between would revoke the status
// when it returns, or run again what has run or ended.
func (p *statusPublisher) record(pod *v1.Pod, r *runState, st *v1.PodStatus) {
	known := r.record
	r.record = r.record.Observe(st)
	same := sameInstances
	if p.probes.Active(pod) || podprobes.HasPostStart(pod) {
		same = func(a, b status.ReadyRecord) bool { return a == b }
	}
	if r.record.Phase != known.Phase || !maps.EqualFunc(r.record.Ready, known.Ready, same) {
		p.records.save(pod.UID, r)
	}
}

// sameInstances reports whether two records are of the same instance of a container. What else
// they say is observed again if nothing probes it.
func sameInstances(a, b status.ReadyRecord) bool { return a.ContainerID == b.ContainerID }

// publishedFault returns the shownFault of the pod's last status.
func (p *statusPublisher) publishedFault(uid types.UID) string {
	fault, _ := p.faults.Load(uid)
	text, _ := fault.(string)
	return text
}

// forget removes the status of a pod.
func (p *statusPublisher) forget(uid types.UID) {
	p.store.Delete(uid)
	p.faults.Delete(uid)
}

// withStatusRefresh acts, and keeps the probes and the status of a pod with probes
// or hooks up to date until the act is over: a pull or a grace period may take
// minutes, in which readiness changes. a.observed is the newest observation
// afterwards. The act must not use the attempt.
func (a *attempt) withStatusRefresh(ctx context.Context, act func(actProgress)) {
	if !a.probes.Active(a.pod) && !podprobes.HasHooks(a.pod) || a.job.Notified == nil {
		act(actProgress{queued: a.publishQueuedAct, sandboxReady: a.publishSandbox})
		return
	}
	over, waits, sandboxes := make(chan struct{}), make(chan cri.Waiting, 1), make(chan *cri.PodStatus, 1)
	go func() {
		defer close(over)
		act(actProgress{
			queued: func(w cri.Waiting) {
				select {
				case waits <- w:
				default:
				}
			},
			// An act creates at most one sandbox.
			sandboxReady: func(observed *cri.PodStatus) { sandboxes <- observed },
		})
	}()
	for {
		select {
		case <-over:
			return
		case w := <-waits:
			a.publishQueuedAct(w)
			continue
		case observed := <-sandboxes:
			a.publishSandbox(observed)
			continue
		case <-a.job.Notified:
			// The worker is dirty and syncs again, also if this received its notification.
		}
		if err := a.observe(ctx); err != nil {
			<-over
			return
		}
		a.runtime.syncer.CancelEndedHooks(a.observed)
		a.probes.Set(a.pod, a.observed, a.run.record)
		a.publish(statusOverrides{acting: true})
	}
}

// actProgress is what an act calls while it is in progress.
type actProgress struct {
	// queued is called while the act waits for those of other pods.
	queued func(cri.Waiting)
	// sandboxReady is called with what is observed of the pod after its sandbox was created.
	sandboxReady func(*cri.PodStatus)
}

// publishSandbox shows the pod's new sandbox: its addresses and PodReadyToStartContainers are true
// while images are pulled, as those of the kubelet.
func (a *attempt) publishSandbox(observed *cri.PodStatus) {
	// No older observation may take that back.
	a.observed, a.run.lastAct = observed, observed.At
	delete(a.run.waiting, "")
	a.publish(statusOverrides{acting: true})
}

// publishQueuedAct shows that the act on a pod waits for those of other pods.
func (a *attempt) publishQueuedAct(w cri.Waiting) {
	if a.job.State == podworkers.Terminating {
		before := a.run.kill.fault
		a.run.kill.fault = &status.Cause{Reason: w.Reason, Message: w.Message}
		a.publish(statusOverrides{acting: true})
		a.run.kill.fault = before
		return
	}
	before := a.run.waiting
	a.run.waiting = map[string]cri.Waiting{"": w}
	a.publish(statusOverrides{acting: true})
	a.run.waiting = before
}
