package config

import (
	"time"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Rollouts are the settings of how static pods are replaced.
type Rollouts struct {
	// RollbackAfter is the time in which a new revision has to become Ready, for pods
	// without the annotation podstead.io/rollback-after; 0 is no rollback.
	RollbackAfter time.Duration
}

func (r *Rollouts) settings() []setting {
	return []setting{{
		flag: "rollback-after", own: "rollbackAfter", value: durationOrZero(&r.RollbackAfter, 0),
		check: func(s *setting) {
			if a := r.RollbackAfter; a != 0 && (a < podinfo.MinRollbackAfter || a > podinfo.MaxRollbackAfter) {
				s.fail("=%s: must be from %s to %s, such as 5m, or 0 for no rollback", a, podinfo.MinRollbackAfter,
					podinfo.MaxRollbackAfter)
			}
		},
		help: "roll back a new revision of a static pod that is not Ready after this `duration`, unless its annotation " +
			"podstead.io/rollback-after sets another; 0 never does",
	}}
}
