package rollout

// State is the state of one pod's rollout.
type State string

// The states of a rollout. The empty state is the absence of a rollout.
const (
	none State = ""
	// Stable: the revision of the manifest is in effect. It was Ready, or nothing
	// judges it.
	Stable State = "Stable"
	// Preparing: the candidate is prepared, while the revision in effect runs on.
	Preparing State = "Preparing"
	// Progressing: the revision in effect has to become Ready before the deadline.
	Progressing State = "Progressing"
	// RollingBack: the revision in effect failed, and the last good one is prepared.
	RollingBack State = "RollingBack"
	// RolledBack: the last good revision is in effect, because that of the manifest
	// failed.
	RolledBack State = "RolledBack"
	// Undone: an earlier revision is in effect on request.
	Undone State = "Undone"
)

// trigger moves a rollout from one state to the next.
type trigger string

// The triggers; doc.go explains them.
const (
	onAdd      trigger = "add"
	onChoose   trigger = "choose"
	onRevert   trigger = "revert"
	onPrepared trigger = "prepared"
	onSettled  trigger = "settled"
	onPinned   trigger = "pinned"
	onFailed   trigger = "failed"
	onRemove   trigger = "remove"
)

// transition is one row of the table.
type transition struct {
	from State
	on   trigger
	to   State
}

// transitions lists all transitions; doc.go shows them as a table.
var transitions = []transition{
	{none, onAdd, Progressing},
	{Stable, onChoose, Preparing},
	{Progressing, onChoose, Preparing},
	{RolledBack, onChoose, Preparing},
	{Undone, onChoose, Preparing},
	{Preparing, onChoose, Preparing},
	{RollingBack, onChoose, Preparing},
	{Preparing, onRevert, Progressing},
	{RollingBack, onRevert, Progressing},
	{RolledBack, onRevert, Progressing},
	{Undone, onRevert, Progressing},
	{Stable, onRevert, Progressing},
	{Progressing, onRevert, Progressing},
	{Preparing, onPrepared, Progressing},
	{RollingBack, onPrepared, RolledBack},
	{Progressing, onSettled, Stable},
	{Progressing, onPinned, Undone},
	{Progressing, onFailed, RollingBack},
	{RolledBack, onFailed, RolledBack},
	{Stable, onRemove, none},
	{Preparing, onRemove, none},
	{Progressing, onRemove, none},
	{RollingBack, onRemove, none},
	{RolledBack, onRemove, none},
	{Undone, onRemove, none},
}

// next returns the state after a trigger, false if the table has none.
func next(from State, on trigger) (State, bool) {
	for _, t := range transitions {
		if t.from == from && t.on == on {
			return t.to, true
		}
	}
	return none, false
}
