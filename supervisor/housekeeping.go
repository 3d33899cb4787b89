package supervisor

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// housekeepingPeriod is the least time between two rounds of housekeeping
// that were asked for by what was observed. The kubelet goes round every 2 s;
// here a round happens because something changed.
const housekeepingPeriod = 2 * time.Second

// cleanup is when housekeeping is due. Only the sync loop touches it.
type cleanup struct {
	// due is zero if nobody asked.
	due, last time.Time
	// swept: the folders of a daemon before this one were looked through.
	swept bool
}

func (c *cleanup) request(now time.Time) {
	if c.due.IsZero() {
		c.due = now
		if next := c.last.Add(housekeepingPeriod); next.After(now) {
			c.due = next
		}
	}
}

func (c *cleanup) isDue(now time.Time) bool { return !c.due.IsZero() && !c.due.After(now) }

// handlePodCleanups looks for what no source wants and nobody takes care of.
// Each find becomes a worker that ends it: so a pod that comes back withStatusRefresh
// runs again when its remains are gone, never beside them.
//
// It is judged source by source. What a source that has not delivered might
// still want is left alone, whatever the other sources say.
func (s *Supervisor) handlePodCleanups() {
	s.cleanup.due, s.cleanup.last = time.Time{}, time.Now()
	observed := s.cfg.Runtime.Observer.Observed()
	if observed.At.IsZero() {
		s.cleanup.request(time.Now())
		return
	}
	s.garbage.Wake()
	s.podSyncer.inputs.Retain(func(uid types.UID) bool { return s.workers.State(uid) != podworkers.None })
	sources := s.cfg.Sources.Pods.Sources()
	for _, found := range observed.Own {
		if s.unattended(found) && s.wanted.isReady(manifest.Source(found.Source), sources) {
			s.log.Info("Terminating orphaned pod", "pod", found.FullName(), "uid", found.UID, "source", found.Source)
			s.workers.Orphan(podFrom(found), foundGrace(found))
		}
	}
	// A folder does not tell its source.
	if !s.cleanup.swept && s.wanted.isReady("", sources) {
		s.cleanup.swept = true
		s.sweepFolders(observed)
	}
}

// garbageRuntime is the runtime as the collection of garbage needs it.
type garbageRuntime struct{ Runtime }

func (r garbageRuntime) Observed() *cri.Observed { return r.Observer.Observed() }

// Remove removes what is dead and asks for a look, so that the next round does
// not find it again.
func (r garbageRuntime) Remove(ctx context.Context, pod *cri.Pod) error {
	defer r.Observer.Relist(pod.UID)
	return r.Syncer.Remove(ctx, pod)
}

// unattended reports whether an observed pod is nobody's business: no source
// wants it and no worker has it, or its worker has finished and yet it runs.
func (s *Supervisor) unattended(found *cri.Pod) bool {
	st := s.workers.State(found.UID)
	return st == podworkers.None || st == podworkers.Finished && found.Running()
}

// sweepFolders finds pods of which only folders or records are left, from a
// daemon that was ended while it cleaned up. Once is enough: what this daemon
// ends it cleans up itself.
func (s *Supervisor) sweepFolders(observed *cri.Observed) {
	inRuntime := map[types.UID]bool{}
	for _, found := range observed.Own {
		inRuntime[found.UID] = true
	}
	uids, err := s.cfg.Store.Records.UIDs()
	if err != nil {
		s.log.Warn("Failed to list pod records", "err", err)
	}
	folders, strangers, err := s.podSyncer.files.volumes.Orphans(func(uid types.UID) bool { return s.workers.State(uid) != podworkers.None })
	if err != nil {
		s.log.Warn("Failed to list pods directory", "err", err)
	}
	if len(strangers) > 0 {
		s.log.Warn("Ignoring unknown entries in pods directory", "directory", s.cfg.Paths.pods(), "names", strangers)
	}
	uids = slices.Concat(uids, folders, s.cfg.Runtime.Cgroups.Pods())
	for _, uid := range uids {
		if !inRuntime[uid] && s.workers.State(uid) == podworkers.None {
			s.workers.Orphan(podFrom(&cri.Pod{UID: uid}), v1.DefaultTerminationGracePeriodSeconds)
		}
	}
}
