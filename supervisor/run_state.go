package supervisor

import (
	"log/slog"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/podresize"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// runState is what a worker remembers of the present run of its pod from sync to
// sync. Only the worker's goroutine reads and writes it; the zero value is that of
// a worker that has not synced yet.
type runState struct {
	// begun: the run of this number was begun.
	begun  bool
	number int
	// lastAct is when the runtime was last asked to change something.
	lastAct time.Time
	record  status.Record
	// previous is the last published status of this run.
	previous *v1.PodStatus
	// waiting is why containers could not be started, from the last Sync.
	waiting map[string]cri.Waiting
	// startedAt is when the pod started, by the monotonic clock; zero until it is
	// first needed.
	startedAt time.Time
	// consecutiveActs counts Syncs in a row that acted.
	consecutiveActs int
	// synced: a first sync of this run was made. ready: the last published status
	// is ready.
	synced, ready bool

	inherited inheritedState
	kill      killState
	hold      holdState
	resize    podresize.State
	logged    loggedState
}

// resizes returns the resize of the run.
func (r *runState) resizes() podresize.Run { return podresize.Run{Record: &r.record, State: &r.resize} }

// inheritedState is what a run finds of previous ones.
type inheritedState struct {
	// noRecord: there was no record of the pod when the run began.
	noRecord bool
	// purge: the containers of the previous run are still to be removed, and with
	// clearLogs its logs too.
	purge, clearLogs bool
}

// holdState is why the pod was held before it could start.
type holdState struct {
	// last is the last reason that was reported.
	last status.Cause
	// shown is the cause that the status shows, nil if the pod is not held. It is shown
	// until the pod may start, so that a sync of a pod that is still held changes nothing.
	shown *status.Cause
	// waitingForAPISince is since when the pod waits for objects that the API
	// server has not delivered.
	waitingForAPISince time.Time
}

// killState is how far the pod was stopped.
type killState struct {
	// done: everything of this run was stopped once.
	done bool
	// fault is why the last attempt to stop or remove the pod failed; nil if it did
	// not.
	fault *status.Cause
}

// loggedState is what was logged already, so that it is logged once.
type loggedState struct {
	// err is the last error, without IDs. saveFault is why the record could not be
	// written, empty if it could.
	err, saveFault string
	kill           *podworkers.KillOrder
	// exits counts the exits of containers, end is the end of the pod.
	exits int
	end   bool
}

// runRecords reads and writes the durable records of pods, each with the crash-loop
// back-off of the pod.
type runRecords struct {
	records *status.Records
	backoff *cri.Backoff
	log     *slog.Logger
}

// save writes the record if it changed. A record that cannot be written costs
// history, never a pod.
func (s *runRecords) save(uid types.UID, r *runState) {
	r.record.Backoff = s.backoff.Steps(uid)
	fault := ""
	if err := s.records.Save(uid, r.record); err != nil {
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
		a.dropEphemeral()
		r.inherited.purge = true
		r.inherited.clearLogs = r.record.Disruption != nil && r.record.Disruption.ClearLogs
		r.record = nextRun(r.record, previous)
		a.runtime.syncer.Forget(uid)
	}
	a.records.backoff.Restore(uid, r.record.Backoff)
	if r.inherited.noRecord || restarted {
		// Otherwise an earlier daemon began the start, and this one sees only a part of it.
		a.durations.Begin(uid)
	}
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
