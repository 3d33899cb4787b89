package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/wallclock"
)

// imagePeriod is the default time between two looks at the image file system,
// the kubelet's. A look is one system call; nothing tells when a disk fills. The
// first comes after the sources had that time to tell what they want.
const imagePeriod = 5 * time.Minute

// useGap is the least time between two looks at which images are used.
const useGap = 2 * time.Second

// The kubelet's reasons.
const (
	reasonImageGCFailed   = "ImageGCFailed"
	reasonFreeDiskFailed  = "FreeDiskSpaceFailed"
	reasonInvalidCapacity = "InvalidDiskCapacity"
)

// ImageStore is where the runtime keeps images. Implemented by cri.Client.
type ImageStore interface {
	StoredImages(ctx context.Context) ([]cri.StoredImage, error)
	StoredImage(ctx context.Context, ref string) (cri.StoredImage, bool, error)
	ImageUsers(ctx context.Context) ([]string, error)
	SandboxImage(ctx context.Context) (string, error)
	ImageMount(ctx context.Context) (string, error)
	RemoveImage(ctx context.Context, image string) error
}

// Room tells how many bytes a file system has and how many of them are free
// for anybody.
type Room func(mount string) (capacity, free uint64, err error)

// ImagesConfig is what Images is made of.
type ImagesConfig struct {
	Policy ImagePolicy
	Store  ImageStore
	// Runtime is the runtime's endpoint.
	Runtime string
	// Observed is the last view of all pods.
	Observed func() *cri.Observed
	// Wanted are the images that manifests name.
	Wanted func() []string
	// Settled waits until Wanted has all that there will be, or for as long as
	// that is worth. It is asked by who does not come with the period; nil does
	// not wait.
	Settled func(ctx context.Context)
	// File is where is kept what was pulled and used.
	File   string
	Events Recorder
	// Removed is told of each image that was removed, and why: age, space or
	// command. Nil tells nobody.
	Removed func(why string)
	// Log may be nil.
	Log *slog.Logger
	// Room is statfs(2) unless a test says otherwise.
	Room Room
}

// Images removes images that this podstead pulled and nobody needs, when their
// file system fills or they were not used for long.
type Images struct {
	cfg  ImagesConfig
	wake chan struct{}

	// round is held while images are chosen and removed.
	round sync.Mutex

	mu     sync.Mutex
	record imageRecord
	using  map[string]bool // what containers have now
	looked time.Time       // at the clock
	fault  string          // why the record is not written

	failures int // of rounds in a row; Run's alone
}

// NewImages makes a collector with what the file holds. A damaged file is
// logged: no image that is there now will be removed.
func NewImages(cfg ImagesConfig) *Images {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Room == nil {
		cfg.Room = statfs
	}
	if cfg.Removed == nil {
		cfg.Removed = func(string) {}
	}
	record, err := loadRecord(cfg.File, cfg.Runtime)
	if err != nil {
		cfg.Log.Warn("what is known of images is lost: those that are there now are never removed", "file", cfg.File, "error", err)
	}
	now := time.Now()
	record.settle(now)
	return &Images{cfg: cfg, wake: make(chan struct{}, 1), record: record, using: map[string]bool{}, looked: now}
}

func statfs(mount string) (capacity, free uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(mount, &s); err != nil {
		return 0, 0, fmt.Errorf("cannot tell how full %s is: %w", mount, err)
	}
	return s.Blocks * uint64(s.Bsize), s.Bavail * uint64(s.Bsize), nil
}

// Wake tells that other containers may be there and returns at once.
func (g *Images) Wake() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends.
func (g *Images) Run(ctx context.Context) error {
	timer := time.NewTicker(cmp.Or(g.cfg.Policy.Period, imagePeriod))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			g.mu.Lock()
			defer g.mu.Unlock()
			if len(g.using) > 0 {
				g.save() // with the time until which they were used
			}
			return ctx.Err()
		case <-g.wake:
			g.noteUse(g.cfg.Observed())
			// What changes meanwhile is noted after that.
			select {
			case <-ctx.Done():
			case <-time.After(useGap):
			}
		case <-timer.C:
			g.noteUse(g.cfg.Observed())
			g.tick(ctx)
		}
	}
}

// tick is one round. The kubelet tells of a failure when it is the second.
func (g *Images) tick(ctx context.Context) {
	err := g.collect(ctx)
	if err == nil || ctx.Err() != nil {
		g.failures = 0
		return
	}
	if g.failures++; g.failures > 1 {
		g.cfg.Events.Event(nil, v1.EventTypeWarning, reasonImageGCFailed, err.Error())
	}
}

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
func (g *Images) noteUse(observed *cri.Observed) {
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
	changed := len(using) != len(g.using)
	for ref := range g.using {
		if !using[ref] {
			changed = true
			g.record.Used[ref] = now
		}
	}
	for ref := range using {
		changed = changed || !g.using[ref]
		g.record.Used[ref] = now
	}
	g.using = using
	if changed {
		g.save()
	}
}

// followClock moves what was noted before the clock was set along with it, so
// that ages stay what they are; the caller holds mu.
func (g *Images) followClock(now time.Time) {
	if jump := wallclock.Jump(g.looked, now); jump.Abs() > clockSlack {
		g.record.move(now.Add(-jump), jump)
	}
	g.looked = now
}

// clockSlack is what a clock that is only kept right may be put right by.
const clockSlack = time.Minute

// save writes the record; the caller holds mu. A fault is told once.
func (g *Images) save() {
	err := g.record.save(g.cfg.File)
	if err == nil {
		g.fault = ""
		return
	}
	if g.fault != err.Error() {
		g.cfg.Log.Warn("what is known of images is not kept", "file", g.cfg.File, "error", err)
	}
	g.fault = err.Error()
}

// List are all images of the runtime, by name.
func (g *Images) List(ctx context.Context) ([]Image, error) {
	g.noteUse(g.cfg.Observed())
	stored, err := g.cfg.Store.StoredImages(ctx)
	if err != nil {
		return nil, err
	}
	users, err := g.cfg.Store.ImageUsers(ctx)
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
	used, wanted, sandboxes := in(users), in(g.cfg.Wanted()), in([]string{sandbox})

	g.mu.Lock()
	defer g.mu.Unlock()
	g.followClock(time.Now())
	if g.record.tidy(index, time.Now()) {
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
		ours = ours && !slices.ContainsFunc(s.Tags, func(tag string) bool { return !slices.Contains(pulled.Refs, fullName(tag)) })
		i := Image{StoredImage: s, State: ImageUnused, LastUsed: last[s.ID], Pulled: pulled.At}
		switch {
		case s.Pinned:
			i.State = ImagePinned
		case sandboxes[s.ID]:
			i.State = ImageSandbox
		case used[s.ID]:
			i.State = ImageInUse
		case wanted[s.ID]:
			i.State = ImageWanted
		case !ours:
			i.State = ImageForeign
		}
		images = append(images, i)
	}
	slices.SortFunc(images, func(a, b Image) int { return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.ID, b.ID)) })
	return images, nil
}

// Removal is an image that was removed, would be, or could not be.
type Removal struct {
	Image Image
	Err   error
}

// Prune removes all images that nothing keeps. With dryRun it only tells which.
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
	if g.cfg.Settled != nil {
		g.cfg.Settled(ctx)
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

// Reclaim removes all images that nothing keeps, because a disk is full, and
// returns the bytes that they had. One that cannot be removed does not stop the
// others.
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

// collect removes images that are too old, then as many as are needed for room.
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
		errs = append(errs, g.makeRoom(ctx, short, removable))
	}
	return errors.Join(errs...)
}

// shortage is how much room is wanted of a file system.
type shortage struct {
	mount string
	used  int // percent
	// free is how many bytes are to be free, missing how many of them are not.
	free, missing uint64
}

// shortage is nil while there is room enough.
func (g *Images) shortage(ctx context.Context) (*shortage, error) {
	if g.cfg.Policy.High >= 100 {
		return nil, nil
	}
	mount, err := g.cfg.Store.ImageMount(ctx)
	if err != nil {
		return nil, err
	}
	if mount == "" {
		return nil, errors.New("the runtime does not tell where its images are")
	}
	capacity, free, err := g.cfg.Room(mount)
	if err != nil {
		return nil, err
	}
	if capacity == 0 {
		g.cfg.Events.Event(nil, v1.EventTypeWarning, reasonInvalidCapacity, "the file system of images, "+mount+", says that it has no room at all")
		return nil, errors.New("the file system of images has no capacity")
	}
	used := 100 - int(min(free, capacity)*100/capacity)
	if used < g.cfg.Policy.High {
		return nil, nil
	}
	want := capacity / 100 * uint64(100-g.cfg.Policy.Low)
	return &shortage{mount: mount, used: used, free: want, missing: want - min(free, want)}, nil
}

// makeRoom removes images until enough is free. What was removed counts by its
// size too: a runtime may give the room back later.
func (g *Images) makeRoom(ctx context.Context, short *shortage, removable []Image) error {
	var errs []error
	freed := uint64(0)
	for _, i := range removable {
		if err := g.remove(ctx, &i, removedSpace); err != nil {
			errs = append(errs, err)
			continue
		}
		freed += i.Size
		if _, free, err := g.cfg.Room(short.mount); freed >= short.missing || err == nil && free >= short.free {
			return errors.Join(errs...)
		}
	}
	if freed < short.missing {
		g.cfg.Events.Event(nil, v1.EventTypeWarning, reasonFreeDiskFailed, fmt.Sprintf(
			"%s, which holds the images, is used to %d%%, and no more images can be removed to bring that to %d%%; podstead images ls tells why each stays",
			short.mount, short.used, g.cfg.Policy.Low))
	}
	return errors.Join(errs...)
}

// remove removes an image and forgets it.
func (g *Images) remove(ctx context.Context, i *Image, why string) error {
	if err := g.cfg.Store.RemoveImage(ctx, i.ID); err != nil {
		return fmt.Errorf("cannot remove image %s: %w", i.Name(), err)
	}
	g.cfg.Removed(why)
	g.cfg.Log.Info("image was removed", "image", i.Name(), "id", i.ID, "bytes", i.Size)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.record.Pulled, i.ID)
	for _, ref := range slices.Concat([]string{i.ID}, i.Tags, i.Digests) {
		delete(g.record.Used, ref)
	}
	g.save()
	return nil
}
