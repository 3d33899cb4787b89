package supervisor

import (
	"log/slog"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/supervisor/status"
)

// runRecords reads and writes the durable records of pods, each with the crash-loop
// back-off of the pod.
type runRecords struct {
	records Records
	backoff Backoff
	log     *slog.Logger
}

// save writes the record if it changed. A record that cannot be written costs
// history, never a pod.
func (s *runRecords) save(uid types.UID, r *runState) {
	r.record.Backoff = s.backoff.Steps(uid)
	fault := ""
	if _, err := s.records.Save(uid, r.record); err != nil {
		fault = err.Error()
	}
	if fault != "" && fault != r.logged.saveFault {
		s.log.Warn("Failed to save pod record", "uid", uid, "err", fault)
	}
	r.logged.saveFault = fault
}

// beginRun forgets the previous run, and loads the pod's record.
func (a *attempt) beginRun() {
	r, uid := a.run, a.pod.UID
	restarted := a.job.Run > 0 && a.job.Found == nil
	previous := r.previous
	*r = runState{begun: true, number: a.job.Run, lastAct: r.lastAct}
	r.record = a.records.records.Load(uid)
	r.inherited.noRecord = r.record.StartTime.IsZero()
	if r.inherited.noRecord && a.job.Pod != nil && a.policy.StatusFromSource {
		// Another daemon may have run the pod: the source has its last status.
		r.record = r.record.Observe(&a.pod.Status)
		a.save()
	}
	if restarted {
		r.inherited.purge = true
		r.inherited.clearLogs = r.record.Disruption != nil && r.record.Disruption.ClearLogs
		r.record = nextRun(r.record, previous)
		a.runtime.syncer.Forget(uid)
	}
	a.records.backoff.Restore(uid, r.record.Backoff)
}

// nextRun returns the record with which a pod is restarted: its containers count
// as restarted, and nothing of the previous run is waited for.
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
