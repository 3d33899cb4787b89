package imagestore

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
)

// Config is what a Store works with. All fields are required.
type Config struct {
	// Runtime is the image service of the runtime.
	Runtime cri.ImageRuntime
	// Mount returns a directory of the file system that the runtime unpacks images to, empty if the runtime reports
	// none. Implemented by cri.Client.ImageMount.
	Mount func(context.Context) (string, error)
	Log   *slog.Logger
}

// Store is the image service of a runtime whose images are synced before they are used. It implements cri.ImageRuntime.
type Store struct {
	cfg Config
	// syncFS replaces syncFS in tests.
	syncFS func(dir string) error

	mu sync.Mutex
	// additions are the pulls and loads in progress.
	additions map[*addition]struct{}
	// synced are the IDs of the images that this daemon synced: a pull that finds one of them again, as with the pull
	// policy Always, unpacked nothing.
	synced map[string]bool
	// warned reports that a failure to sync was logged, and none has succeeded since.
	warned bool
}

// addition is a pull or load in progress.
type addition struct {
	// before are the IDs that its names had when it began, empty for a name without an image.
	before map[string]string
	// done is closed when the addition has failed, or what it brought is synced.
	done chan struct{}
}

// New makes a Store.
func New(cfg Config) *Store {
	return &Store{cfg: cfg, syncFS: syncFS, additions: map[*addition]struct{}{}, synced: map[string]bool{}}
}

// ImageStatus implements cri.ImageRuntime. An image that is being unpacked or synced is waited for: a runtime may list it
// before.
func (s *Store) ImageStatus(ctx context.Context, image string) (*runtimeapi.Image, error) {
	for {
		found, err := s.cfg.Runtime.ImageStatus(ctx, image)
		if err != nil || found == nil {
			return found, err
		}
		a := s.adding(image, found)
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
func (s *Store) adding(image string, found *runtimeapi.Image) *addition {
	names := slices.Concat([]string{image}, found.GetRepoTags(), found.GetRepoDigests())
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.additions {
		for _, name := range names {
			if before, ok := a.before[name]; ok && before != found.GetId() {
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
	return ref, err
}

// Add runs add, which brings images with these names into the runtime, and returns when they are synced. The error is
// that of add, or the context's: a file system that cannot be synced is logged, since pods start in spite of it.
func (s *Store) Add(ctx context.Context, names []string, add func() error) error {
	a := &addition{before: s.ids(ctx, names), done: make(chan struct{})}
	s.mu.Lock()
	s.additions[a] = struct{}{}
	s.mu.Unlock()

	err := add()
	// It outlives a caller that gives up: until the image is synced, no other may use it.
	go s.finish(context.WithoutCancel(ctx), a)
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

// ids returns the IDs of images by name, empty for one that is not present or not known.
func (s *Store) ids(ctx context.Context, names []string) map[string]string {
	ids := make(map[string]string, len(names))
	for _, name := range names {
		// Without a response it counts as none, so that what comes is synced.
		found, _ := s.cfg.Runtime.ImageStatus(ctx, name)
		ids[name] = found.GetId()
	}
	return ids
}

// finishTimeout limits the requests to the runtime after an addition.
const finishTimeout = time.Minute

// finish syncs what an addition brought, unless that was there and synced before, and ends it.
func (s *Store) finish(ctx context.Context, a *addition) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	now := s.ids(ctx, slices.Collect(maps.Keys(a.before)))
	synced := s.brought(a, now) && s.sync(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range now {
		if synced && id != "" {
			s.synced[id] = true
		}
	}
	delete(s.additions, a)
	close(a.done)
}

// brought reports whether an addition brought an image, or found one that this daemon has not synced: it may have come
// from another client a moment ago. now are the IDs that its names have.
func (s *Store) brought(a *addition, now map[string]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, id := range now {
		if id != "" && (id != a.before[name] || !s.synced[id]) {
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
