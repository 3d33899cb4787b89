package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/volume"
)

const (
	// reclaimDelay is how long a claim must be in no manifest before its volume is
	// deleted, so that a claim that moves to another file keeps it.
	reclaimDelay = 10 * time.Second
	// reclaimRetry is the time between two attempts to delete a volume.
	reclaimRetry = time.Minute
)

// volumeReclaimer deletes the volumes of claims that no manifest declares any more, if
// their reclaim policy is Delete.
type volumeReclaimer struct {
	volumes *volume.Volumes
	objects podinputs.Objects
	// ready reports whether all sources have delivered: before, a claim may be missing
	// only because its file was not read yet.
	ready func() bool
	// faulty reports whether a manifest has a fault; nil is never.
	faulty func() bool
	log    *slog.Logger
	// wake notifies run.
	wake wakeup.Signal
	// gone is since when claims are in no manifest. Only Run uses it.
	gone map[string]time.Time
}

func newVolumeReclaimer(cfg *Config, volumes *volume.Volumes, ready func() bool) *volumeReclaimer {
	return &volumeReclaimer{
		volumes: volumes, objects: cfg.Sources.Objects, ready: ready, faulty: cfg.Sources.Faulty, log: cfg.Log,
		wake: wakeup.NewSignal(), gone: map[string]time.Time{},
	}
}

// Wake requests a round, after a pod has ended or an object has changed.
func (r *volumeReclaimer) Wake() { r.wake.Notify() }

// run deletes volumes until the context ends.
func (r *volumeReclaimer) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake.C():
		case <-timer.C:
		}
		timer.Stop()
		if next := r.round(time.Now()); next > 0 {
			timer.Reset(next)
		}
	}
}

// round deletes the volumes that are due, and returns when the next round is due; 0 if
// that is at the next change.
func (r *volumeReclaimer) round(now time.Time) (next time.Duration) {
	if !r.ready() {
		return 0
	}
	found, err := r.volumes.Unclaimed(r.isClaimed)
	if err != nil {
		r.log.Warn("Failed to list the volumes of removed claims", "err", err)
		return reclaimRetry
	}
	if len(found) > 0 && r.faulty != nil && r.faulty() {
		clear(r.gone)
		return reclaimRetry
	}
	gone := map[string]time.Time{}
	wait := func(d time.Duration) {
		if next == 0 || d < next {
			next = d
		}
	}
	for i := range found {
		b := &found[i]
		key := b.Namespace + "/" + b.Claim
		since, known := r.gone[key]
		if !known {
			since = now
		}
		if due := since.Add(reclaimDelay).Sub(now); due > 0 && !b.Deleting {
			gone[key] = since
			wait(due)
			continue
		}
		if !b.Deleting && r.isClaimed(b.Namespace, b.Claim) {
			continue // it came back while another volume was deleted
		}
		switch err := r.volumes.Reclaim(b); {
		case err == nil:
			r.log.Info("Persistent volume deleted, since its claim was removed", "claim", key, "volume", b.Volume.Name)
		case errors.Is(err, volume.ErrClaimInUse):
			gone[key] = since // the end of the pod starts the next round
		default:
			gone[key] = since
			r.log.Warn("Failed to delete persistent volume of removed claim, retrying", "claim", key, "volume", b.Volume.Name,
				"err", err)
			wait(reclaimRetry)
		}
	}
	r.gone = gone
	return next
}

func (r *volumeReclaimer) isClaimed(namespace, name string) bool {
	_, known := r.objects.Claim(namespace, name)
	return known
}
