package supervisor

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
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
	// is ready. killed: everything of this run was stopped once.
	synced, ready, killed bool

	inherited inheritedState
	hold      holdState
	resize    resizeState
	logged    loggedState
}

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
	// waitingForAPISince is since when the pod waits for objects that the API
	// server has not delivered.
	waitingForAPISince time.Time
}

// resizeState is the resize that is not complete.
type resizeState struct {
	// pending are the changes of resources that are not made yet, status is why.
	pending []cri.Resize
	status  *status.Resize
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
