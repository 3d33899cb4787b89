package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// The kubelet's reasons.
const (
	reasonFreeDiskFailed  = "FreeDiskSpaceFailed"
	reasonInvalidCapacity = "InvalidDiskCapacity"
)

// Removal is an image that was removed, would be, or could not be.
type Removal struct {
	Image Image
	Err   error
}

// Prune removes all images that are not needed. With dryRun it only reports them.
func (g *Images) Prune(ctx context.Context, dryRun bool) ([]Removal, error) {
	return g.prune(ctx, dryRun, removedCommand)
}

// Why an image was removed; the first two are the kubelet's words.
const (
	removedAge     = "age"
	removedSpace   = "space"
	removedCommand = "command"
)

func (g *Images) prune(ctx context.Context, dryRun bool, why string) ([]Removal, error) {
	if g.cfg.WaitForSources != nil {
		g.cfg.WaitForSources(ctx)
	}
	g.round.Lock()
	defer g.round.Unlock()
	images, err := g.List(ctx)
	if err != nil {
		return nil, err
	}
	var done []Removal
	for _, i := range RemovableImages(images, g.cfg.Policy, time.Now()) {
		r := Removal{Image: i}
		if !dryRun {
			r.Err = g.remove(ctx, &i, why)
		}
		done = append(done, r)
	}
	return done, nil
}

// Reclaim removes all images that are not needed, because a disk is full, and
// returns their size in bytes. A failed removal does not stop the others.
func (g *Images) Reclaim(ctx context.Context) (freed uint64, err error) {
	list, err := g.prune(ctx, false, removedSpace)
	errs := []error{err}
	for _, r := range list {
		if r.Err == nil {
			freed += r.Image.Size
		}
		errs = append(errs, r.Err)
	}
	return freed, errors.Join(errs...)
}

// collect removes images that are too old, then as many as are needed to free
// space.
func (g *Images) collect(ctx context.Context) error {
	p := g.cfg.Policy
	if p.High >= 100 && p.MaxAge <= 0 {
		return nil
	}
	g.round.Lock()
	defer g.round.Unlock()
	short, err := g.shortage(ctx)
	if err != nil {
		return err
	}
	if short == nil && p.MaxAge <= 0 {
		return nil
	}
	images, err := g.List(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	removable := RemovableImages(images, p, now)
	var errs []error
	for _, i := range ExpiredImages(removable, p, now) {
		errs = append(errs, g.remove(ctx, &i, removedAge))
		removable = slices.DeleteFunc(removable, func(other Image) bool { return other.ID == i.ID })
	}
	if short != nil {
		errs = append(errs, g.freeSpace(ctx, short, removable))
	}
	return errors.Join(errs...)
}

// shortage is how much space is missing in a file system.
type shortage struct {
	mount string
	used  int // percent
	// free is how many bytes should be free, missing how many of them are not.
	free, missing uint64
}

// shortage returns nil while there is enough space.
func (g *Images) shortage(ctx context.Context) (*shortage, error) {
	if g.cfg.Policy.High >= 100 {
		return nil, nil
	}
	mount, err := g.cfg.Store.ImageMount(ctx)
	if err != nil {
		return nil, err
	}
	if mount == "" {
		return nil, errors.New("the runtime does not report where its images are stored")
	}
	capacity, free, err := g.cfg.Statfs(mount)
	if err != nil {
		return nil, err
	}
	if capacity == 0 {
		g.cfg.Events.Event(nil, v1.EventTypeWarning, reasonInvalidCapacity,
			"image file system "+mount+" reports a capacity of 0")
		return nil, errors.New("the image file system has no capacity")
	}
	used := 100 - int(min(free, capacity)*100/capacity)
	if used < g.cfg.Policy.High {
		return nil, nil
	}
	want := capacity / 100 * uint64(100-g.cfg.Policy.Low)
	return &shortage{mount: mount, used: used, free: want, missing: want - min(free, want)}, nil
}

// freeSpace removes images until enough is free. Removed images also count by
// their size: a runtime may free the space later.
func (g *Images) freeSpace(ctx context.Context, short *shortage, removable []Image) error {
	var errs []error
	freed := uint64(0)
	for _, i := range removable {
		if err := g.remove(ctx, &i, removedSpace); err != nil {
			errs = append(errs, err)
			continue
		}
		freed += i.Size
		if _, free, err := g.cfg.Statfs(short.mount); freed >= short.missing || err == nil && free >= short.free {
			return errors.Join(errs...)
		}
	}
	if freed < short.missing {
		g.cfg.Events.Event(nil, v1.EventTypeWarning, reasonFreeDiskFailed, fmt.Sprintf(
			"%s, which holds the images, is %d%% full, and no more images can be removed to reduce that to %d%%; podstead "+
				"images ls shows why each is kept",
			short.mount, short.used, g.cfg.Policy.Low))
	}
	return errors.Join(errs...)
}

// remove removes an image and its record.
func (g *Images) remove(ctx context.Context, i *Image, why string) error {
	mark := g.cfg.Pulls.Mark() // a pod may pull the image again from now on
	if err := g.cfg.Store.RemoveImage(ctx, i.ID); err != nil {
		return fmt.Errorf("failed to remove image %s: %w", i.Name(), err)
	}
	g.cfg.Pulls.Forget(mark, i.ID)
	g.cfg.Removed(why)
	g.cfg.Log.Info("Image removed", "image", i.Name(), "id", i.ID, "bytes", i.Size)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.record.Pulled, i.ID)
	for _, ref := range slices.Concat([]string{i.ID}, i.Tags, i.Digests) {
		delete(g.record.Used, ref)
	}
	g.save()
	return nil
}
