package supervisor

import (
	"maps"
	"slices"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/status"
)

// noteKilled records which instances the request kills to restart them, before it does.
func (a *syncAttempt) noteKilled(req *cri.SyncRequest) {
	req.Restarting = a.run.record.Restarting(a.observed)
	killed := req.KilledToRestart(a.run.record.Killed)
	if maps.Equal(killed, a.run.record.Killed) {
		return
	}
	a.run.record.Killed = killed
	if len(killed) > 0 {
		a.save()
	}
	req.Restarting = a.run.record.Restarting(a.observed)
}

// takeBackKilled makes the record what it was for the instances that were not killed after
// all: they may still end by themselves, and then their exit codes count. known are those
// of earlier requests, which may still end for those.
func (a *syncAttempt) takeBackKilled(known map[string]cri.KilledInstance) {
	if len(a.result.NotKilled) == 0 {
		return
	}
	killed := maps.Clone(a.run.record.Killed)
	for name, k := range killed {
		before, ok := known[name]
		switch {
		case !slices.Contains(a.result.NotKilled, k.ID):
		case ok && before.ID == k.ID:
			killed[name] = before
		default:
			delete(killed, name)
		}
	}
	a.run.record.Killed = killed
	a.save()
}

// minRestartCounts returns the least restart counts of the containers, by name.
func minRestartCounts(rec status.Record) map[string]int {
	if len(rec.RestartCounts) == 0 {
		return nil
	}
	counts := make(map[string]int, len(rec.RestartCounts))
	for name, n := range rec.RestartCounts {
		counts[name] = int(n)
	}
	return counts
}
