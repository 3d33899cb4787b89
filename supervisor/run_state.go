package supervisor

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// runState is what a worker remembers of the present run of its pod from sync to
// sync. Only the worker's goroutine reads and writes it.
type runState struct {
	// begun is false before the first sync. number is that of the run.
	begun  bool
	number int
	// lastAct is when the runtime was last asked to change something.
	lastAct time.Time
	record  status.Record
	// previous is the last published status of this run.
	previous *v1.PodStatus
	// waiting is why containers could not be started, from the last Sync.
	waiting map[string]cri.Waiting
	// noRecord: there was no record of the pod when the run began.
	noRecord bool
	// pendingResizes are the changes of resources that are not made yet,
	// resizeStatus is why.
	pendingResizes []cri.Resize
	resizeStatus   *status.Resize
	// purgePrevious: the containers of the previous run are still to be removed.
	purgePrevious bool
	// startedAt is when the pod started, by the monotonic clock; zero until it is
	// first needed.
	startedAt time.Time
	// clearLogs: the logs of the previous run are removed too.
	clearLogs bool
	// consecutiveActs counts Syncs in a row that acted.
	consecutiveActs int
	ready           bool
	// lastHold is the last reported reason for which the pod may not start.
	lastHold status.Cause
	// lastLogged is the last error that was logged.
	lastLogged string
	// waitingForAPISince is since when the pod waits for objects that the API
	// server has not delivered.
	waitingForAPISince time.Time
	// saveFault is why the record could not be written, empty if it could.
	saveFault  string
	killLogged *podworkers.KillOrder
	// killed: everything of this run was stopped once.
	killed bool
	// loggedExits counts the exits of containers that were logged; endLogged: the
	// end of the pod was.
	loggedExits int
	endLogged   bool
	// synced: a first sync of this run was made.
	synced bool
}
