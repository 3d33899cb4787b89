package gc

import (
	"context"
	"slices"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/wallclock"
)

// Pulled notes that this podstead pulled an image. before is the image of that
// name before the pull, empty if there was none.
func (g *Images) Pulled(ctx context.Context, ref, before string) {
	image, ok, err := g.cfg.Store.StoredImage(ctx, ref)
	if err != nil || !ok {
		return // it stays then, as one that others pulled
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	known, ours := g.record.Pulled[image.ID]
	if !ours && image.ID == before {
		return // somebody else had brought it, and it has not changed
	}
	if name := fullName(ref); !slices.Contains(known.Refs, name) {
		known.Refs = append(known.Refs, name)
	}
	if !ours {
		g.followClock(time.Now())
		known.At = time.Now().Round(0)
	}
	g.record.Pulled[image.ID] = known
	g.save()
}

// noteUse notes which images containers have. It is written when that changes.
func (g *Images) recordUse(observed *cri.Observed) {
	if observed.At.IsZero() {
		return
	}
	using := map[string]bool{}
	for _, pod := range observed.Own {
		for i := range pod.Containers {
			c := &pod.Containers[i]
			for _, ref := range []string{c.ImageRef, c.Image} {
				if ref != "" {
					using[ref] = true
				}
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.followClock(time.Now())
	now := time.Now().UTC().Truncate(time.Second)
	changed := len(using) != len(g.inUse)
	for ref := range g.inUse {
		if !using[ref] {
			changed = true
			g.record.Used[ref] = now
		}
	}
	for ref := range using {
		changed = changed || !g.inUse[ref]
		g.record.Used[ref] = now
	}
	g.inUse = using
	if changed {
		g.save()
	}
}

// followClock moves what was noted before the clock was set along with it, so
// that ages stay what they are; the caller holds mu.
func (g *Images) followClock(now time.Time) {
	if jump := wallclock.Jump(g.clockRead, now); jump.Abs() > clockSlack {
		g.record.shift(now.Add(-jump), jump)
	}
	g.clockRead = now
}

// clockSlack is what a clock that is only kept right may be put right by.
const clockSlack = time.Minute

// save writes the record; the caller holds mu. A fault is told once.
func (g *Images) save() {
	err := g.record.save(g.cfg.File)
	if err == nil {
		g.saveError = ""
		return
	}
	if g.saveError != err.Error() {
		g.cfg.Log.Warn("Failed to save image record", "file", g.cfg.File, "err", err)
	}
	g.saveError = err.Error()
}
