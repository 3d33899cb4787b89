package imagestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/statefile"
)

// Containerd is what a Store needs of the runtime besides its image service. Implemented by cri.Client.
type Containerd interface {
	RemoveImage(ctx context.Context, id string) error
	// DropLeases removes what interrupted pulls and loads have left that is no image, by the time at which they began.
	DropLeases(ctx context.Context, drop func(began time.Time) bool) error
	// RestoreImageName gives an image a name back.
	RestoreImageName(ctx context.Context, name, id string) error
}

// Config is what a Store works with. All fields are required.
type Config struct {
	// Runtime is the image service of the runtime.
	Runtime cri.ImageRuntime
	// Mount returns a directory of the file system that the runtime unpacks images to, empty if the runtime reports
	// none. Implemented by cri.Client.ImageMount.
	Mount func(context.Context) (string, error)
	// Containerd removes images.
	Containerd Containerd
	// File is the path of the journal, on Disk; empty for none.
	File string
	Disk statefile.Disk
	// Boot is the ID of this boot, empty if it is not known.
	Boot string
	Log  *slog.Logger
}

// Store is the image service of a runtime whose images are synced before they are used. It implements cri.ImageRuntime.
type Store struct {
	cfg Config
	// syncFS replaces syncFS in tests.
	syncFS func(dir string) error
	file   *statefile.File[journal]
	// recovered is closed when there are no interrupted additions.
	recovered chan struct{}

	mu sync.Mutex
	// interrupted are the additions of earlier boots, fault is why they could not be removed yet.
	interrupted []recorded
	fault       error
	// leftover are the additions of an earlier daemon in this boot.
	leftover []*addition
	// onRemoved is called for each image that was removed.
	onRemoved func(Removal)
	// removed are the names of images that were removed, until they come again.
	removed map[string]bool
	// additions are the pulls and loads in progress, and those whose result is not certain.
	additions map[*addition]struct{}
	// synced are the IDs of the images that this daemon synced: a pull that finds one of them again, as with the pull
	// policy Always, unpacked nothing.
	synced map[string]bool
	// warned reports that a failure to sync was logged, and none has succeeded since.
	warned bool
}

// addition is a pull or load in progress.
type addition struct {
	recorded
	// done is closed when the addition has failed, or what it brought is synced.
	done chan struct{}
	// lingers reports that the runtime may continue with it although it has ended here.
	lingers bool
}

// settleDelay is how long after a failure the runtime may continue: it cancels what a client has given up.
const settleDelay = time.Minute

// ImageStatus implements cri.ImageRuntime. An image that is being unpacked or synced is waited for: a runtime may list
// it before.
func (s *Store) ImageStatus(ctx context.Context, image string) (*runtimeapi.Image, error) {
	for {
		found, err := s.cfg.Runtime.ImageStatus(ctx, image)
		if err != nil || found == nil {
			return found, err
		}
		names := slices.Concat([]string{image}, found.GetRepoTags(), found.GetRepoDigests())
		if s.wasInterrupted(names) {
			if err := s.awaitRecovery(ctx); err != nil {
				return nil, err
			}
			continue
		}
		a := s.adding(names, found.GetId())
		if a == nil {
			return found, nil
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// adding returns the addition in progress that brought an image, nil if none did.
func (s *Store) adding(names []string, id string) *addition {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.additions {
		if a.lingers {
			continue
		}
		for _, name := range names {
			if before, ok := a.named(name); ok && before != id {
				return a
			}
		}
	}
	return nil
}

// PullImage implements cri.ImageRuntime. It returns when the image is synced.
func (s *Store) PullImage(ctx context.Context, image string, auth *runtimeapi.AuthConfig) (ref string, err error) {
	err = s.Add(ctx, []string{image}, func() error {
		ref, err = s.cfg.Runtime.PullImage(ctx, image, auth)
		return err
	})
	s.mu.Lock()
	removed := s.removed[image]
	s.mu.Unlock()
	if err != nil && removed && ctx.Err() == nil {
		return ref, explain(err)
	}
	return ref, err
}

// explain adds to the error of a pull why the image is not here any more.
func explain(err error) error {
	const why = "; the image was removed, because the machine went down while it was pulled or loaded: without the " +
		"registry, load it again with `podstead images load ARCHIVE`"
	var e *cri.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%w%s", err, why)
	}
	explained := *e
	explained.Detail += why
	return &explained
}

// Add runs add, which brings images with these names into the runtime, and returns when they are synced. The error is
// that of add, or the context's: a file system that cannot be synced is logged, since pods start in spite of it.
func (s *Store) Add(ctx context.Context, names []string, add func() error) error {
	// What an earlier boot left of other images may be a part of these.
	if err := s.awaitRecovery(ctx); err != nil {
		return err
	}
	// Without a response of the runtime a name counts as one without an image, so that what comes is synced.
	before, _ := s.ids(ctx, names)
	a := &addition{recorded: recorded{Images: before, Boot: s.cfg.Boot, Began: time.Now()}, done: make(chan struct{})}
	s.mu.Lock()
	s.additions[a] = struct{}{}
	s.mu.Unlock()
	s.save()

	err := add()
	// It outlives a caller that gives up: until the image is synced, no other may use it. Nothing waits for it at the end
	// of the daemon: a sync of a disk that fails may hang, and the journal names the addition to the next daemon.
	go s.finish(context.WithoutCancel(ctx), a, err != nil)
	if err != nil {
		return err
	}
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ids returns the IDs of images by name, empty for one that is not present, or if the runtime does not respond.
func (s *Store) ids(ctx context.Context, names []string) (map[string]string, error) {
	ids := make(map[string]string, len(names))
	var errs []error
	for _, name := range names {
		found, err := s.cfg.Runtime.ImageStatus(ctx, name)
		ids[name] = found.GetId()
		errs = append(errs, err)
	}
	return ids, errors.Join(errs...)
}

// finishTimeout limits the requests to the runtime after an addition.
const finishTimeout = time.Minute

// finish syncs what an addition brought, unless that was there and synced before, and ends it. One that failed stays in
// the journal for a while, since the runtime may continue with it.
func (s *Store) finish(ctx context.Context, a *addition, failed bool) {
	s.settle(ctx, a)
	s.mu.Lock()
	if a.lingers = failed; !failed {
		delete(s.additions, a)
	}
	s.mu.Unlock()
	if failed {
		time.AfterFunc(settleDelay, func() { s.forget(ctx, a) })
	} else {
		s.save()
	}
	close(a.done)
}

// forget ends an addition that lingers.
func (s *Store) forget(ctx context.Context, a *addition) {
	s.settle(ctx, a)
	s.mu.Lock()
	delete(s.additions, a)
	s.mu.Unlock()
	s.save()
}

// settle syncs what an addition brought.
func (s *Store) settle(ctx context.Context, a *addition) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	now, err := s.ids(ctx, slices.Collect(maps.Keys(a.Images)))
	synced := (err != nil || s.brought(a, now)) && s.sync(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, id := range now {
		if synced && id != "" {
			s.synced[id] = true
			delete(s.removed, name)
		}
	}
}

// brought reports whether an addition brought an image, or found one that this daemon has not synced: it may have come
// from another client a moment ago. now are the IDs that its names have.
func (s *Store) brought(a *addition, now map[string]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, id := range now {
		if id != "" && (id != a.Images[name] || !s.synced[id]) {
			return true
		}
	}
	return false
}

// sync syncs the file system of the images, and reports whether it did.
func (s *Store) sync(ctx context.Context) bool {
	began := time.Now()
	dir, err := s.cfg.Mount(ctx)
	if err == nil && dir == "" {
		err = errors.New("the runtime does not report where its images are")
	}
	if err == nil {
		err = s.syncFS(dir)
	}
	s.mu.Lock()
	warn := err != nil && !s.warned
	s.warned = err != nil
	s.mu.Unlock()
	if warn {
		s.cfg.Log.Warn("Failed to sync images to the disk; a power cut may damage those that came last", "directory", dir,
			"err", err)
	} else if err == nil {
		s.cfg.Log.Debug("Images synced to the disk", "directory", dir, "took", time.Since(began).Round(time.Millisecond))
	}
	return err == nil
}

// syncFS writes everything to the disk that the file system of a directory has in memory.
func syncFS(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return &os.PathError{Op: "syncfs", Path: dir, Err: err}
	}
	return nil
}
