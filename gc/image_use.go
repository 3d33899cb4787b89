package gc

import (
	"context"
	"slices"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/wallclock"
)

// Pulled records that this podstead pulled an image. before is the image of that
// name before the pull, empty if there was none.
func (g *Images) Pulled(ctx context.Context, ref, before string) {
	image, ok, err := g.cfg.Store.StoredImage(ctx, ref)
	if err != nil || !ok {
		return // it is kept then, as a foreign image
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	known, ours := g.record.Pulled[image.ID]
	if !ours && image.ID == before {
		return // another client had pulled it, and it has not changed
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

// recordUse records which images containers use. The file is written when that
// changes.
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

// followClock shifts recorded times when the clock is set, so that ages are
// preserved; the caller holds mu.
func (g *Images) followClock(now time.Time) {
	if jump := wallclock.Jump(g.clockRead, now); jump.Abs() > clockSlack {
		g.record.shift(now.Add(-jump), jump)
	}
	g.clockRead = now
}

// clockSlack is the largest correction that counts as normal clock adjustment.
const clockSlack = time.Minute

// save writes the record; the caller holds mu. An error is logged once.
func (g *Images) save() {
	err := g.file.Save(g.record)
	if err == nil {
		g.saveError = ""
		return
	}
	if g.saveError != err.Error() {
		g.cfg.Log.Warn("Failed to save image record", "file", g.cfg.File, "err", err)
	}
	g.saveError = err.Error()
}
