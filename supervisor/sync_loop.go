package supervisor

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/pleg"
)

// syncLoop receives what happened and notifies the workers. It never waits for the
// runtime, a disk or a worker.
func (s *Supervisor) syncLoop(ctx context.Context) {
	s.loop.set(true, time.Time{})
	defer s.loop.set(false, time.Time{})
	due := time.NewTimer(0)
	defer due.Stop()
	faults, cancel := s.cfg.Sources.Pods.Subscribe()
	defer cancel()
	objects, cancelObjects := s.cfg.Sources.Objects.Subscribe()
	defer cancelObjects()
	var clusterObjects <-chan struct{}
	if s.cfg.Sources.ClusterObjects != nil {
		changed, cancelClusterObjects := s.cfg.Sources.ClusterObjects.Subscribe()
		defer cancelClusterObjects()
		clusterObjects = changed
	}
	s.workers.Pause(true)
	for ctx.Err() == nil {
		s.syncLoopIteration(ctx, due, manifestChanges{faults, objects, clusterObjects})
	}
}

// manifestChanges receive after faults of manifests changed, objects of manifests, or
// objects of the cluster.
type manifestChanges struct{ faults, objects, clusterObjects <-chan struct{} }

// syncLoopIteration waits for one event and handles it. The kubelet has tickers of
// one and two seconds; here one timer is armed for the earliest sync that is due, and
// there is no tick if none is.
func (s *Supervisor) syncLoopIteration(ctx context.Context, due *time.Timer, manifests manifestChanges) {
	select {
	case <-ctx.Done():
	case u := <-s.cfg.Sources.Pods.Updates():
		s.busy()
		s.handleUpdate(u)
	case <-s.cfg.Runtime.Observer.Changed():
		s.busy()
		s.handleObserved(s.cfg.Runtime.Observer.Drain())
	case <-s.podSyncer.resources.Changed():
		s.busy()
		s.handleResources()
	case <-manifests.faults:
		s.busy()
		s.refreshFaults()
	case <-manifests.objects:
		s.busy()
		s.notifyChangedObjects()
	case <-manifests.clusterObjects:
		s.busy()
		s.notifyChangedObjects()
	case <-s.cfg.Network.HostIPs.Changed():
		// Every status shows them.
		s.busy()
		s.workers.NotifyAll()
		s.cfg.Sources.Rollouts.RetryPreparations()
	case <-s.runtime.Changed():
		s.busy()
		s.handleRuntime()
	case <-s.workers.Changed():
		s.busy()
		s.cleanup.request(time.Now())
		// The end of a pod changes nothing else that subscribers could see.
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

// arm sets the timer for what is due first, or stops it.
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

// syncDue notifies the workers whose sync is due, and runs housekeeping if it is due.
func (s *Supervisor) syncDue(now time.Time) {
	s.workers.NotifyDue(now)
	if s.cleanup.isDue(now) {
		s.handlePodCleanups()
	}
}

// handleUpdate applies an update of a source.
func (s *Supervisor) handleUpdate(u manifest.PodUpdate) {
	if u.Op != manifest.Remove && u.Op != manifest.Reconcile {
		// All of them, before any of them requests resources.
		for _, pod := range u.Pods {
			s.podSyncer.reservations.Announce(s.podSyncer.inputs.Resolve(pod).Pod)
			s.order.Update(pod)
		}
	}
	if u.Op == manifest.Remove {
		s.order.Together(func() { s.applyUpdate(u) })
	} else {
		s.applyUpdate(u)
	}
	if len(u.Pods) > 0 && u.Op != manifest.Reconcile {
		s.cfg.Store.Statuses.Touch()
	}
	first := s.desired.MarkReady(u)
	if u.Op == manifest.Add || u.Op == manifest.Restore {
		s.order.Delivered()
	}
	if first {
		s.log.Info("Source synced", "source", u.Source)
		s.handlePodCleanups()
		s.cfg.Store.Statuses.Touch()
	}
}

// applyUpdate tells the workers what an update changes.
func (s *Supervisor) applyUpdate(u manifest.PodUpdate) {
	for _, pod := range u.Pods {
		switch {
		case u.Op == manifest.Reconcile:
			s.desired.Store(pod)
			s.workers.Reconcile(pod)
		case u.Op != manifest.Remove:
			// The kubelet, too, handles DELETE as an update: the deletion
			// timestamp in it is what ends the pod.
			s.logUpdate(u, pod)
			s.desired.Store(pod)
			s.workers.Update(pod)
		case !s.desired.Remove(pod, u.Source):
		case u.Replaced[pod.UID]:
			s.logUpdate(u, pod)
			s.order.Replaced(pod)
			s.workers.Replace(pod.UID)
		default:
			s.logUpdate(u, pod)
			s.order.Remove(pod)
			s.workers.Remove(pod.UID)
		}
	}
}

// updateText is the log message of an operation. A RECONCILE only brings a status,
// and is not logged.
var updateText = map[manifest.Op]string{
	manifest.Remove:  "Pod removed",
	manifest.Add:     "Pod added",
	manifest.Update:  "Pod updated",
	manifest.Delete:  "Pod deleted",
	manifest.Restore: "Pod added, its source is not complete",
}

func (s *Supervisor) logUpdate(u manifest.PodUpdate, pod *v1.Pod) {
	text, attrs := updateText[u.Op], []any(nil)
	switch policy := podinfo.PolicyFor(u.Source); {
	case u.Replaced[pod.UID]:
		text, attrs = "Pod replaced", []any{"reason", policy.ReplacedText}
	case u.FromCheckpoint[pod.UID]:
		text = "Pod restored from the checkpoint"
	case u.Op == manifest.Remove:
		attrs = []any{"reason", policy.RemovedText}
	}
	if text != "" {
		s.log.Info(text, append(attrs, "pod", podinfo.FullName(pod), "uid", pod.UID, "source", u.Source)...)
	}
}

// handleObserved notifies the pods that changed in the runtime.
func (s *Supervisor) handleObserved(events []pleg.Event) {
	for i := range events {
		// A removed container needs no sync.
		if events[i].Kind != pleg.ContainerRemoved {
			s.workers.Notify(events[i].UID)
		}
	}
	s.podSyncer.reservations.ReleaseUntracked()
	s.workers.RetryHeld()
	s.registry.notifyObserved()
	s.cleanup.request(time.Now())
}

// handleResources notifies the pods for which a resource of the node has changed.
func (s *Supervisor) handleResources() {
	pods, previews := s.podSyncer.resources.TakeChanged()
	for _, uid := range pods {
		s.workers.Notify(uid)
	}
	if previews {
		s.cfg.Sources.Rollouts.RetryPreparations()
	}
}

// handleRuntime pauses the workers while the runtime is not healthy. Updates of the
// sources are still applied, so that users see the desired pods.
func (s *Supervisor) handleRuntime() {
	_, healthy := s.runtime.Healthy()
	s.workers.Pause(!healthy)
	s.cfg.Sources.Rollouts.Reconsider()
	if _, network := s.runtime.NetworkReady(); healthy && network {
		s.cfg.Sources.Rollouts.RetryPreparations()
		s.workers.RetryFailed()
	}
}

// refreshFaults notifies the pods whose status shows another fault of the manifest.
func (s *Supervisor) refreshFaults() {
	for _, pod := range s.desired.List() {
		if s.podSyncer.statuses.publishedFault(pod.UID) != s.podSyncer.statuses.shownFault(pod.UID) {
			s.workers.Notify(pod.UID)
		}
	}
}
