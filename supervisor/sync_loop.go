package supervisor

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/pleg"
)

// syncLoop is the heart: it takes in what happened and hands it to the
// workers. It never waits for the runtime, a disk or a worker.
func (s *Supervisor) syncLoop(ctx context.Context) {
	s.loop.set(true, time.Time{})
	defer s.loop.set(false, time.Time{})
	due := time.NewTimer(0)
	defer due.Stop()
	faults, cancel := s.cfg.Sources.Pods.Subscribe()
	defer cancel()
	objects, cancelObjects := s.cfg.Sources.Objects.Subscribe()
	defer cancelObjects()
	var bound <-chan struct{}
	if s.cfg.Sources.ClusterObjects != nil {
		told, cancelBound := s.cfg.Sources.ClusterObjects.Subscribe()
		defer cancelBound()
		bound = told
	}
	s.workers.Pause(true)
	for ctx.Err() == nil {
		s.syncLoopIteration(ctx, due, manifestWakes{faults, objects, bound})
	}
}

// manifestWakes tell that something in the manifests changed but the pods, or of
// what a cluster's pods refer to.
type manifestWakes struct{ faults, objects, bound <-chan struct{} }

// syncLoopIteration waits for one thing to happen and handles it. The kubelet
// ticks every second and every two; here one timer is armed for the earliest
// thing that is due, and if nothing is there is no tick.
func (s *Supervisor) syncLoopIteration(ctx context.Context, due *time.Timer, manifests manifestWakes) {
	var probes <-chan struct{}
	if s.cfg.Sources.Probes != nil {
		probes = s.cfg.Sources.Probes.Changed()
	}
	select {
	case <-ctx.Done():
	case u := <-s.cfg.Sources.Pods.Updates():
		s.busy()
		s.handleUpdate(u)
	case <-s.cfg.Runtime.Observer.Changed():
		s.busy()
		s.handleObserved(s.cfg.Runtime.Observer.Take())
	case <-probes:
		s.busy()
		for _, uid := range s.cfg.Sources.Probes.TakeChanged() {
			s.workers.Notify(uid)
		}
	case <-manifests.faults:
		s.busy()
		s.refreshFaults()
	case <-manifests.objects:
		s.busy()
		s.notifyChangedObjects()
	case <-manifests.bound:
		s.busy()
		s.notifyChangedObjects()
	case <-s.cfg.Network.HostIPs.Changed():
		// Every status shows them.
		s.busy()
		s.workers.NotifyAll()
	case <-s.runtime.changed:
		s.busy()
		s.handleRuntime()
	case <-s.workers.Changed():
		s.busy()
		s.cleanup.request(time.Now())
		// Who waits for the end of a pod sees no other change.
		s.cfg.Store.Statuses.Touch()
	case <-s.workers.QueueChanged():
	case <-due.C:
		s.busy()
		s.syncDue(time.Now())
	}
	s.arm(due)
	s.loop.set(true, time.Time{})
}

func (s *Supervisor) busy() { s.loop.set(true, time.Now()) }

// arm sets the timer for the earliest thing that is due, or stops it.
func (s *Supervisor) arm(timer *time.Timer) {
	at, ok := s.workers.NextDue()
	if housekeeping := s.cleanup.due; !housekeeping.IsZero() && (!ok || housekeeping.Before(at)) {
		at, ok = housekeeping, true
	}
	if ok {
		timer.Reset(max(0, time.Until(at)))
	} else {
		timer.Stop()
	}
}

// syncDue wakes the workers whose time has come, and keeps house if asked to.
func (s *Supervisor) syncDue(now time.Time) {
	s.workers.NotifyDue(now)
	if s.cleanup.isDue(now) {
		s.handlePodCleanups()
	}
}

// handleUpdate takes in what a source says.
func (s *Supervisor) handleUpdate(u manifest.PodUpdate) {
	if u.Op != manifest.Remove && u.Op != manifest.Reconcile {
		// All of them, before any of them speaks.
		for _, pod := range u.Pods {
			s.podSyncer.reservations.Announce(s.podSyncer.inputs.Resolve(pod).Pod)
		}
	}
	for _, pod := range u.Pods {
		switch {
		case u.Op == manifest.Reconcile:
			s.wanted.put(pod)
			s.workers.Reconcile(pod)
		case u.Op != manifest.Remove:
			// The kubelet, too, handles DELETE as an update: the deletion
			// timestamp in it is what ends the pod.
			s.logUpdate(u, pod)
			s.wanted.put(pod)
			s.workers.Update(pod)
		case !s.wanted.remove(pod, u.Source):
		case u.Replaced[pod.UID]:
			s.logUpdate(u, pod)
			s.workers.Replace(pod.UID)
		default:
			s.logUpdate(u, pod)
			s.workers.Remove(pod.UID)
		}
	}
	if len(u.Pods) > 0 && u.Op != manifest.Reconcile {
		s.cfg.Store.Statuses.Touch()
	}
	if s.wanted.markReady(u) {
		s.log.Info("Source synced", "source", u.Source)
		s.handlePodCleanups()
		s.cfg.Store.Statuses.Touch()
	}
}

// updateText is the log message of an operation. A RECONCILE only brings a status,
// and is not logged.
var updateText = map[manifest.Op]string{
	manifest.Remove:  "Pod removed",
	manifest.Add:     "Pod added",
	manifest.Update:  "Pod updated",
	manifest.Delete:  "Pod deleted",
	manifest.Restore: "Pod restored from the checkpoint",
}

func (s *Supervisor) logUpdate(u manifest.PodUpdate, pod *v1.Pod) {
	text, attrs := updateText[u.Op], []any(nil)
	switch policy := podinfo.PolicyFor(u.Source); {
	case u.Replaced[pod.UID]:
		text, attrs = "Pod replaced", []any{"reason", policy.ReplacedText}
	case u.Op == manifest.Remove:
		attrs = []any{"reason", policy.RemovedText}
	}
	if text != "" {
		s.log.Info(text, append(attrs, "pod", podinfo.FullName(pod), "uid", pod.UID, "source", u.Source)...)
	}
}

// handleObserved wakes the pods of which something changed in the runtime.
func (s *Supervisor) handleObserved(events []pleg.Event) {
	for i := range events {
		// A removed container changes nothing that a pod needs.
		if events[i].Kind != pleg.ContainerRemoved {
			s.workers.Notify(events[i].UID)
		}
	}
	s.podSyncer.reservations.ReleaseUntracked()
	s.workers.RetryHeld()
	s.registry.notifyObserved()
	s.cleanup.request(time.Now())
}

// handleRuntime holds the workers while the runtime is not healthy. The road
// from the sources stays open withStatusRefresh, so that people see what is wanted.
func (s *Supervisor) handleRuntime() {
	_, healthy := s.runtime.healthy()
	s.workers.Pause(!healthy)
	if _, network := s.runtime.networkReady(); healthy && network {
		s.workers.RetryFailed()
	}
}

// refreshFaults wakes the pods whose manifest's fault is not the one that
// their status shows.
func (s *Supervisor) refreshFaults() {
	for _, pod := range s.wanted.list() {
		if s.podSyncer.statuses.publishedFault(pod.UID) != s.cfg.Sources.Pods.FaultFor(pod.UID) {
			s.workers.Notify(pod.UID)
		}
	}
}
