package daemon

import (
	"errors"
	"fmt"

	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/supervisor/rollout"
)

// rolloutView serves rollouts to the API.
type rolloutView struct{ *rollout.Controller }

// Rollouts implements httpapi.RolloutManager.
func (v rolloutView) Rollouts() []httpapi.Rollout {
	statuses := v.Statuses()
	list := make([]httpapi.Rollout, 0, len(statuses))
	for _, s := range statuses {
		list = append(list, httpapi.Rollout{
			Namespace: s.Namespace, Name: s.Name, UID: s.UID, State: string(s.State),
			Revision: s.Revision, Candidate: s.Candidate, LastGood: s.LastGood, Manifest: s.Manifest,
			Reason: s.Reason, Message: s.Message, Since: s.Since, Deadline: s.Deadline, Images: s.Images,
		})
	}
	return list
}

// History implements httpapi.RolloutManager.
func (v rolloutView) History(fullName string) ([]httpapi.RolloutRevision, error) {
	revisions, err := v.Controller.History(fullName)
	list := make([]httpapi.RolloutRevision, 0, len(revisions))
	for _, r := range revisions {
		list = append(list, httpapi.RolloutRevision(r))
	}
	return list, err
}

// Undo implements httpapi.RolloutManager.
func (v rolloutView) Undo(fullName, revision string) error {
	err := v.Controller.Undo(fullName, revision)
	if errors.Is(err, rollout.ErrNoRevision) {
		return fmt.Errorf("%w; %w", err, httpapi.ErrNoRevision)
	}
	return err
}

// rolledBack counts the pods that run an earlier revision, since that of their manifest
// failed.
func (d *daemon) rolledBack() (pods int) {
	for _, s := range d.sources.rollouts.Statuses() {
		if s.State == rollout.RolledBack || s.State == rollout.RollingBack {
			pods++
		}
	}
	return pods
}
