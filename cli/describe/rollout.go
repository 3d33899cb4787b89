package describe

import (
	"time"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
)

// rollout adds which revision of the pod is in effect.
func (d PodDescription) rollout(r *terminal.Report) {
	if d.Rollout == nil {
		return
	}
	text := string(d.Rollout.State) + ", revision " + d.Rollout.Revision
	if d.Rollout.State != api.RolloutStable || d.Rollout.Message != "" {
		text = objects.FullRollout(d.Rollout, d.Now) + ", revision " + d.Rollout.Revision
		if d.Rollout.Candidate != "" {
			text += ", candidate " + d.Rollout.Candidate
		}
	}
	if !d.Rollout.Since.IsZero() {
		text += ", since " + d.Rollout.Since.Format(time.RFC1123Z)
	}
	r.Field(0, valueColumn, "Rollout", text)
}
