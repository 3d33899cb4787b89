package rollout

import "github.com/podstead/podstead/api"

// State is the state of one pod's rollout.
type State = api.RolloutState

// The states of a rollout, which api explains. The empty state is the absence of a rollout.
const (
	none        State = ""
	Stable            = api.RolloutStable
	Preparing         = api.RolloutPreparing
	Progressing       = api.RolloutProgressing
	RollingBack       = api.RolloutRollingBack
	RolledBack        = api.RolloutRolledBack
	Undone            = api.RolloutUndone
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
