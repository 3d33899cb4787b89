package podworkers

// State is the state of one run of a pod.
type State uint8

// The states of a run, in the order in which a run passes through them. None is
// the absence of a worker.
const (
	None State = iota
	Queued
	Syncing
	Terminating
	Terminated
	Finished
	stateCount
)

var stateNames = [stateCount]string{"none", "queued", "syncing", "terminating", "terminated", "finished"}

// String returns the state's name in logs and in the table of doc.go.
func (s State) String() string { return stateNames[s] }

// trigger moves a run from one state to the next.
type trigger uint8

// The triggers.
const (
	// onUpdate: a source delivers the pod or a new revision of it.
	onUpdate trigger = iota
	// onOrphan: remains of a pod were found that no source wants.
	onOrphan
	// onStart: the full name is free and the time NotBefore has come.
	onStart
	// onKill: a decision ends the pod.
	onKill
	// onEnded: the pod's restartPolicy has ended it.
	onEnded
	// onRestart: the pod is to run again.
	onRestart
	// onStopped: nothing of the pod runs any more.
	onStopped
	// onCleaned: volumes are unmounted and the name is free.
	onCleaned
	// onForget: no source wants the pod and nothing of it is left.
	onForget
	triggerCount
)

var triggerNames = [triggerCount]string{"update", "orphan", "start", "kill", "ended", "restart", "stopped", "cleaned",
	"forget"}

// String returns the trigger's name in the table of doc.go.
func (t trigger) String() string { return triggerNames[t] }

// transition is one row of the table.
type transition struct {
	from State
	on   trigger
	to   State
	// newRun: the worker begins a new run; the old run stays finished.
	newRun bool
}

// transitions lists all transitions; doc.go shows them as a table. A run never
// returns to an earlier state: the only way on from finished is a new run.
var transitions = []transition{
	{from: None, on: onUpdate, to: Queued},
	{from: None, on: onOrphan, to: Terminating},
	{from: Queued, on: onUpdate, to: Queued},
	{from: Queued, on: onStart, to: Syncing},
	{from: Queued, on: onKill, to: Terminating},
	{from: Syncing, on: onUpdate, to: Syncing},
	{from: Syncing, on: onKill, to: Terminating},
	{from: Syncing, on: onEnded, to: Terminating},
	{from: Syncing, on: onRestart, to: Terminating},
	{from: Terminating, on: onUpdate, to: Terminating},
	{from: Terminating, on: onKill, to: Terminating},
	{from: Terminating, on: onRestart, to: Terminating},
	{from: Terminating, on: onStopped, to: Terminated},
	{from: Terminated, on: onUpdate, to: Terminated},
	{from: Terminated, on: onKill, to: Terminated},
	{from: Terminated, on: onRestart, to: Terminated},
	{from: Terminated, on: onCleaned, to: Finished},
	{from: Finished, on: onUpdate, to: Finished},
	{from: Finished, on: onKill, to: Finished},
	{from: Finished, on: onRestart, to: Queued, newRun: true},
	{from: Finished, on: onOrphan, to: Terminating, newRun: true},
	{from: Finished, on: onForget, to: None},
}

// transitionTable indexes transitions by state and trigger.
var transitionTable = func() (m [stateCount][triggerCount]*transition) {
	for i := range transitions {
		t := &transitions[i]
		m[t.from][t.on] = t
	}
	return m
}()

// next returns the row for a trigger in a state, nil if there is none.
func next(s State, t trigger) *transition { return transitionTable[s][t] }
