package imagestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/internal/wallclock"
)

// Removal is an image that was removed because the machine went down while it was pulled or loaded.
type Removal struct {
	// Name is its full name, ID what it was removed by.
	Name, ID string
}

// The delays between attempts to remove what was interrupted.
const (
	recoverMin = time.Second
	recoverMax = 30 * time.Second
)

// Run removes what was interrupted by the end of an earlier boot, as soon as the runtime responds, and syncs what was
// interrupted by the end of an earlier daemon. It returns when that is done, or ctx ends.
func (s *Store) Run(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := s.recover(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil
		}
		s.mu.Lock()
		warn := s.fault == nil
		s.fault = err
		s.mu.Unlock()
		if warn {
			s.cfg.Log.Warn("Failed to remove images that were not complete when the machine went down, retrying", "err", err)
		}
		if !retry.Sleep(ctx, retry.Delay(failures, recoverMin, recoverMax)) {
			return nil
		}
	}
	return nil
}

// OnRemoved sets the function that is called for each image that Run removed. It must be called before Run.
func (s *Store) OnRemoved(removed func(Removal)) { s.onRemoved = removed }

// recover removes the images of the interrupted additions, and the layers of those that did not become images: a later
// pull would take them for complete.
func (s *Store) recover(ctx context.Context) error {
	for len(s.leftover) > 0 {
		a := s.leftover[0]
		if _, err := s.ids(ctx, slices.Collect(maps.Keys(a.Images))); err != nil {
			return err
		}
		s.finish(context.WithoutCancel(ctx), a, true)
		s.leftover = s.leftover[1:]
	}
	s.mu.Lock()
	interrupted := slices.Clone(s.interrupted)
	s.mu.Unlock()
	if len(interrupted) == 0 {
		return nil
	}
	now := time.Now()
	booted := now.Add(-wallclock.Uptime())
	// A lease of the future is of an earlier boot, in which the clock was wrong. Pulls and loads of this daemon wait.
	err := s.cfg.Containerd.DropLeases(ctx, func(created time.Time) bool {
		return created.Before(booted) || created.After(now)
	})
	if err != nil {
		return err
	}
	var removals []Removal
	for _, r := range interrupted {
		for _, name := range slices.Sorted(maps.Keys(r.Images)) {
			removal, err := s.rollBack(ctx, name, r.Images[name])
			if err != nil {
				return fmt.Errorf("image %q: %w", name, err)
			}
			if removal.ID != "" {
				removals = append(removals, removal)
			}
		}
	}
	s.mu.Lock()
	for _, r := range removals {
		s.removed[r.Name] = true
	}
	s.interrupted, s.fault = nil, nil
	close(s.recovered)
	s.mu.Unlock()
	s.save()
	for _, r := range removals {
		s.cfg.Log.Warn("Removed an image that was not complete when the machine went down", "image", r.Name, "id", r.ID)
		s.onRemoved(r)
	}
	return nil
}

// rollBack removes the image that an interrupted addition brought under a name, and gives the name back to the image
// that had it before.
func (s *Store) rollBack(ctx context.Context, name, before string) (Removal, error) {
	found, err := s.cfg.Runtime.ImageStatus(ctx, name)
	if err != nil || found == nil || found.GetId() == before || s.hadOtherName(found.GetRepoTags()) {
		return Removal{}, err
	}
	if err := s.cfg.Containerd.RemoveImage(ctx, found.GetId()); err != nil {
		return Removal{}, err
	}
	if before != "" {
		if err := s.cfg.Containerd.RestoreImageName(ctx, name, before); err != nil {
			return Removal{}, err
		}
	}
	return Removal{Name: name, ID: found.GetId()}, nil
}

// hadOtherName reports whether an image with these tags has one that no interrupted addition brought: it was here, and
// complete, before it got another name.
func (s *Store) hadOtherName(tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool { return !s.wasInterrupted([]string{tag}) })
}

// awaitRecovery waits until what was interrupted is removed. If that fails it returns why.
func (s *Store) awaitRecovery(ctx context.Context) error {
	select {
	case <-s.recovered:
		return nil
	default:
	}
	s.mu.Lock()
	fault := s.fault
	s.mu.Unlock()
	if fault != nil {
		return fmt.Errorf("images that were not complete when the machine went down cannot be removed yet: %w", fault)
	}
	select {
	case <-s.recovered:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wasInterrupted reports whether one of these names is that of an interrupted addition that is not removed yet.
func (s *Store) wasInterrupted(names []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.interrupted, func(r recorded) bool {
		return slices.ContainsFunc(names, func(name string) bool { _, ok := r.named(name); return ok })
	})
}
