package supervisor

// state is where one run of a pod stands.
type state uint8

// The states of a run. stateNone is the absence of a worker.
const (
	stateNone state = iota
	stateQueued
	stateSyncing
	stateTerminating
	stateTerminated
	stateFinished
	stateCount
)

var stateNames = [stateCount]string{"none", "queued", "syncing", "terminating", "terminated", "finished"}

// String is the state's name in logs and in the table.
func (s state) String() string { return stateNames[s] }

// trigger is what moves a run from one state to the next.
type trigger uint8

// The triggers.
const (
	// onUpdate: a source brings the pod or a new revision of it.
	onUpdate trigger = iota
	// onOrphan: remains were found that no source wants.
	onOrphan
	// onStart: the full name is free and the time not-before has come.
	onStart
	// onKill: a decision ends the pod.
	onKill
	// onEnded: its restartPolicy has ended the pod.
	onEnded
	// onRerun: the pod is to run again.
	onRerun
	// onStopped: nothing of the pod runs any more.
	onStopped
	// onCleaned: volumes are down and the name is free.
	onCleaned
	// onForget: no source wants it and nothing is left.
	onForget
	triggerCount
)

var triggerNames = [triggerCount]string{"update", "orphan", "start", "kill", "ended", "rerun", "stopped", "cleaned", "forget"}

// String is the trigger's name in logs and in the table.
func (t trigger) String() string { return triggerNames[t] }

// transition is one row of the table.
type transition struct {
	from state
	on   trigger
	to   state
	// newRun: the worker begins a new run; the old one never left finished.
	newRun bool
}

// transitions are all the moves there are; what is not in the table does not
// happen and is ignored. A run goes down this list and never up: the only way
// on from finished is a new run.
//
//	none         update   queued
//	none         orphan   terminating
//	queued       update   queued
//	queued       start    syncing
//	queued       kill     terminating
//	syncing      update   syncing
//	syncing      kill     terminating
//	syncing      ended    terminating
//	syncing      rerun    terminating
//	terminating  update   terminating
//	terminating  kill     terminating
//	terminating  rerun    terminating
//	terminating  stopped  terminated
//	terminated   update   terminated
//	terminated   kill     terminated
//	terminated   rerun    terminated
//	terminated   cleaned  finished
//	finished     update   finished
//	finished     kill     finished
//	finished     rerun    queued       (new run)
//	finished     orphan   terminating  (new run)
//	finished     forget   none
//
// An update of a run that is ending is kept for the next one. A kill of a run
// that is ending may only shrink its grace. A rerun of a run that is ending is
// remembered and happens when it has finished.
var transitions = []transition{
	{from: stateNone, on: onUpdate, to: stateQueued},
	{from: stateNone, on: onOrphan, to: stateTerminating},
	{from: stateQueued, on: onUpdate, to: stateQueued},
	{from: stateQueued, on: onStart, to: stateSyncing},
	{from: stateQueued, on: onKill, to: stateTerminating},
	{from: stateSyncing, on: onUpdate, to: stateSyncing},
	{from: stateSyncing, on: onKill, to: stateTerminating},
	{from: stateSyncing, on: onEnded, to: stateTerminating},
	{from: stateSyncing, on: onRerun, to: stateTerminating},
	{from: stateTerminating, on: onUpdate, to: stateTerminating},
	{from: stateTerminating, on: onKill, to: stateTerminating},
	{from: stateTerminating, on: onRerun, to: stateTerminating},
	{from: stateTerminating, on: onStopped, to: stateTerminated},
	{from: stateTerminated, on: onUpdate, to: stateTerminated},
	{from: stateTerminated, on: onKill, to: stateTerminated},
	{from: stateTerminated, on: onRerun, to: stateTerminated},
	{from: stateTerminated, on: onCleaned, to: stateFinished},
	{from: stateFinished, on: onUpdate, to: stateFinished},
	{from: stateFinished, on: onKill, to: stateFinished},
	{from: stateFinished, on: onRerun, to: stateQueued, newRun: true},
	{from: stateFinished, on: onOrphan, to: stateTerminating, newRun: true},
	{from: stateFinished, on: onForget, to: stateNone},
}

// moves indexes the table by state and trigger.
var moves = func() (m [stateCount][triggerCount]*transition) {
	for i := range transitions {
		t := &transitions[i]
		m[t.from][t.on] = t
	}
	return m
}()

// next is the row for a trigger in a state, nil if there is none.
func next(s state, t trigger) *transition { return moves[s][t] }
