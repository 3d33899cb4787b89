package gc

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/podstead/podstead/cri"
)

// List returns all images of the runtime, by name.
func (g *Images) List(ctx context.Context) ([]Image, error) {
	g.recordUse(g.cfg.Observed())
	mark := g.cfg.Pulls.Mark()
	stored, err := g.cfg.Store.StoredImages(ctx)
	if err != nil {
		return nil, err
	}
	g.prunePulls(mark, stored)
	users, err := g.cfg.Store.ImagesInUse(ctx)
	if err != nil {
		return nil, err
	}
	sandbox, err := g.cfg.Store.SandboxImage(ctx)
	if err != nil {
		return nil, err
	}
	index := indexImages(stored)
	in := func(names []string) map[string]bool {
		found := map[string]bool{}
		for _, name := range names {
			if id, ok := index.find(name); ok {
				found[id] = true
			}
		}
		return found
	}
	used, desired, sandboxes := in(users), in(g.cfg.Desired()), in([]string{sandbox})

	g.mu.Lock()
	defer g.mu.Unlock()
	g.followClock(time.Now())
	if g.record.prune(index, time.Now()) {
		g.save()
	}
	last := map[string]time.Time{} // by ID
	for ref, at := range g.record.Used {
		if id, ok := index.find(ref); ok && at.After(last[id]) {
			last[id] = at
		}
	}
	images := make([]Image, 0, len(stored))
	for _, s := range stored {
		pulled, ours := g.record.Pulled[s.ID]
		ours = ours && !slices.ContainsFunc(s.Tags,
			func(tag string) bool { return !slices.Contains(pulled.Refs, fullName(tag)) })
		i := Image{StoredImage: s, State: ImageUnused, LastUsed: last[s.ID], Pulled: pulled.At}
		switch {
		case s.Pinned:
			i.State = ImagePinned
		case sandboxes[s.ID]:
			i.State = ImageSandbox
		case used[s.ID]:
			i.State = ImageInUse
		case desired[s.ID]:
			i.State = ImageDesired
		case !ours:
			i.State = ImageForeign
		}
		images = append(images, i)
	}
	slices.SortFunc(images, func(a,
		b Image) int {
		return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.ID, b.ID))
	})
	return images, nil
}

// prunePulls drops the records of the pulls of images that are gone.
func (g *Images) prunePulls(mark uint64, stored []cri.StoredImage) {
	ids := make([]string, len(stored))
	for i := range stored {
		ids[i] = stored[i].ID
	}
	g.cfg.Pulls.Prune(mark, ids)
}
