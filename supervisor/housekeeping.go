package supervisor

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// housekeepingPeriod is the least time between two rounds of housekeeping. The
// kubelet has a round every 2 s; here a round happens because something changed.
const housekeepingPeriod = 2 * time.Second

// cleanup is when housekeeping is due. Only the sync loop uses it.
type cleanup struct {
	// due is zero without a request.
	due, last time.Time
	// scanned: the directories of previous daemons were scanned.
	scanned bool
}

func (c *cleanup) request(now time.Time) {
	at := now
	if next := c.last.Add(housekeepingPeriod); next.After(now) {
		at = next
	}
	c.requestAt(at)
}

// requestAt requests a round at a time, unless an earlier one is due.
func (c *cleanup) requestAt(at time.Time) {
	if c.due.IsZero() || at.Before(c.due) {
		c.due = at
	}
}

func (c *cleanup) isDue(now time.Time) bool { return !c.due.IsZero() && !c.due.After(now) }

// handlePodCleanups finds orphans: pods that no source wants and that no worker
// handles. Each gets a worker that ends it, so that a pod that is added again in the
// meantime runs after its orphan has ended, never at the same time.
//
// Orphans are judged source by source: a pod whose source has not delivered is left
// alone, whatever the other sources have delivered. One that was declared by a source that
// no longer has it stays for a moment if another one may declare it, so that a pod that
// moves is replaced and not ended.
func (s *Supervisor) handlePodCleanups() {
	s.cleanup.due, s.cleanup.last = time.Time{}, time.Now()
	observed := s.cfg.Runtime.Observer.Observed()
	if observed.At.IsZero() {
		s.cleanup.request(time.Now())
		return
	}
	s.garbage.Wake()
	s.podSyncer.files.reclaimer.Wake()
	s.podSyncer.inputs.Retain(func(uid types.UID) bool { return s.workers.State(uid) != podworkers.None })
	s.retainResources(observed, false)
	sources := s.cfg.Sources.Pods.Sources()
	var kept []podworkers.View
	s.order.Together(func() {
		for _, found := range observed.Own {
			switch {
			case !s.unattended(found) || !s.desired.IsReady(manifest.Source(found.Source), sources):
			case s.mayMove(found.UID):
				kept = append(kept, s.keptView(found))
			default:
				s.log.Info("Terminating orphaned pod", "pod", found.FullName(), "uid", found.UID, "source", found.Source)
				s.workers.Orphan(podFrom(found), foundGrace(found))
			}
		}
	})
	if before := s.kept.Swap(&kept); len(kept) > 0 || before != nil && len(*before) > 0 {
		s.cfg.Store.Statuses.Touch()
	}
	// A directory does not show its source.
	if !s.cleanup.scanned && s.desired.IsReady("", sources) {
		s.cleanup.scanned = true
		s.scanDirectories(observed)
		// Those of pods that were removed while no daemon ran.
		s.retainResources(observed, true)
	}
	s.sweepResources(observed)
}

// retainResources gives back what pods had of the node that ended while no daemon ran.
func (s *Supervisor) retainResources(observed *cri.Observed, complete bool) {
	var inRuntime map[types.UID]bool
	s.podSyncer.resources.Retain(func(uid types.UID) bool {
		if inRuntime == nil {
			inRuntime = podUIDs(observed)
		}
		return inRuntime[uid] || s.workers.State(uid) != podworkers.None
	}, complete)
}

// mayMove reports whether an orphan stays for now, because a source that has not delivered
// may declare its pod. A round of housekeeping follows when that is over.
func (s *Supervisor) mayMove(uid types.UID) bool {
	if s.workers.State(uid) != podworkers.None {
		return false
	}
	until := s.cfg.Sources.Rollouts.KeepsUntil(uid)
	if until.IsZero() {
		return false
	}
	s.cleanup.requestAt(until)
	return true
}

// keptView is an orphan that stays for now as clients see it: terminating.
func (s *Supervisor) keptView(found *cri.Pod) podworkers.View {
	if before := s.kept.Load(); before != nil {
		for _, v := range *before {
			if v.Pod.UID == found.UID {
				return v // the same pod is the same pointer
			}
		}
	}
	return podworkers.View{Pod: podFrom(found), Since: time.Now(), Grace: foundGrace(found)}
}

// keptViews returns the orphans that stay for now and that no source has declared since.
func (s *Supervisor) keptViews() (views []podworkers.View) {
	if kept := s.kept.Load(); kept != nil {
		for _, v := range *kept {
			if s.workers.State(v.Pod.UID) == podworkers.None {
				views = append(views, v)
			}
		}
	}
	return views
}

// sweepInterval is the time between two searches for what the runtime has created again
// after the end of its pod, such as a cgroup. There are no searches when no pod has ended
// for a while.
const sweepInterval = time.Minute

// sweepResources ends what has created the cgroup of an ended pod again: a call of the
// runtime that went on after its deadline.
func (s *Supervisor) sweepResources(observed *cri.Observed) {
	found, again := s.podSyncer.resources.Reappeared()
	if !again {
		return
	}
	s.cleanup.requestAt(time.Now().Add(sweepInterval))
	inRuntime := podUIDs(observed)
	for _, uid := range found {
		if !inRuntime[uid] && s.workers.State(uid) == podworkers.None {
			s.log.Warn("Removing cgroup that was created after the end of its pod", "uid", uid)
			s.workers.Orphan(podFrom(&cri.Pod{UID: uid}), v1.DefaultTerminationGracePeriodSeconds)
		}
	}
}

// podUIDs returns the UIDs of the pods in the runtime: all of this daemon's, and
// those of other clients that run.
func podUIDs(observed *cri.Observed) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for _, found := range observed.Own {
		uids[found.UID] = true
	}
	for _, found := range observed.Foreign {
		if found.Running() {
			uids[found.UID] = true
		}
	}
	return uids
}

// garbageRuntime is the runtime for the container garbage collection.
type garbageRuntime struct{ Runtime }

func (r garbageRuntime) Observed() *cri.Observed { return r.Observer.Observed() }

// Remove removes what is dead and requests an observation, so that the next round
// does not find it again.
func (r garbageRuntime) Remove(ctx context.Context, pod *cri.Pod) error {
	defer r.Observer.Relist(pod.UID)
	return r.Syncer.Remove(ctx, pod)
}

// unattended reports whether no worker handles an observed pod: it has none, or its
// worker has finished and the pod runs nevertheless.
func (s *Supervisor) unattended(found *cri.Pod) bool {
	st := s.workers.State(found.UID)
	return st == podworkers.None || st == podworkers.Finished && found.Running()
}

// scanDirectories finds pods of which only directories or records are left, from a
// daemon that was killed during cleanup. Once is enough: this daemon cleans up what
// it ends.
func (s *Supervisor) scanDirectories(observed *cri.Observed) {
	inRuntime := podUIDs(observed)
	uids, err := s.cfg.Store.Records.UIDs()
	if err != nil {
		s.log.Warn("Failed to list pod records", "err", err)
	}
	directories, unknown, err := s.podSyncer.files.volumes.Orphans(
		func(uid types.UID) bool { return s.workers.State(uid) != podworkers.None })
	if err != nil {
		s.log.Warn("Failed to list pods directory", "err", err)
	}
	if len(unknown) > 0 {
		s.log.Warn("Ignoring unknown entries in pods directory", "directory", s.cfg.Paths.pods(), "names", unknown)
	}
	uids = slices.Concat(uids, directories, s.podSyncer.resources.Found(), s.cfg.Store.Ephemeral.UIDs())
	for _, uid := range uids {
		if !inRuntime[uid] && s.workers.State(uid) == podworkers.None {
			s.workers.Orphan(podFrom(&cri.Pod{UID: uid}), v1.DefaultTerminationGracePeriodSeconds)
		}
	}
}

// podFrom returns what is known of a pod whose manifest is gone, from its
// containers.
func podFrom(found *cri.Pod) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: found.Name, Namespace: found.Namespace, UID: found.UID,
		Annotations: map[string]string{podinfo.AnnotationSource: found.Source},
	}}
	if len(found.Sandboxes) > 0 {
		if names, ok := found.Sandboxes[0].Annotations[podinfo.AnnotationDependsOn]; ok {
			pod.Annotations[podinfo.AnnotationDependsOn] = names
		}
	}
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	for i := range found.Containers {
		c := &found.Containers[i]
		if !slices.ContainsFunc(pod.Spec.Containers, func(o v1.Container) bool { return o.Name == c.Name }) {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
		}
	}
	return pod
}

// foundGrace returns the longest grace period in the labels of a pod's containers, in
// seconds. The kubelet gives orphans one second; a database needs the time that its
// manifest gave it.
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
