package imageload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/archive"
	"github.com/podstead/podstead/cri/private"
	"github.com/podstead/podstead/internal/retry"
)

// Config is what a Loader works with. All fields but Private are required.
type Config struct {
	// Client is the runtime that the images go to.
	Client *cri.Client
	// Private is the private containerd if Client is connected to that one,
	// else nil.
	Private *private.Containerd
	// Images pulls through Client, and reports and syncs each pull. Implemented by imagestore.Store.
	Images Images
	// Imported is called for each image that was imported without a pull, with
	// the ID that its name had before, empty if it had none.
	Imported func(ctx context.Context, name, before string)
	// Temp is where archives are stored while they are loaded; see Dir.
	Temp archive.TempSpace
}

// Images is where images are loaded to.
type Images interface {
	PullImage(ctx context.Context, image string, auth *runtimeapi.AuthConfig) (string, error)
	// Add runs add, which brings images with these names, and returns when they are synced to the disk.
	Add(ctx context.Context, names []string, add func() error) error
}

// Loader loads archives. It loads one at a time; further ones wait.
type Loader struct {
	cfg Config
	mu  sync.Mutex
}

// Image is one that was loaded.
type Image struct {
	// Name is a full reference, ID the digest of the image's configuration.
	Name, ID string
}

// InputError reports that this archive, or any archive, can never be loaded into this
// runtime: the caller has to do something else, which the message names.
type InputError struct{ Err error }

// Error implements error.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// New makes a Loader.
func New(cfg Config) *Loader { return &Loader{cfg: cfg} }

// Dir returns the directory for archives below the root directory.
func Dir(root string) string { return filepath.Join(root, "load") }

// Load loads all images of an archive for this platform. as names an image that
// has no name in the archive, or gives a single one another name; empty keeps the
// archive's names. Errors that the caller has to act on are InputErrors.
func (l *Loader) Load(ctx context.Context, r io.Reader, as string) ([]Image, error) {
	load, err := l.method(ctx)
	if err != nil {
		return nil, err
	}
	a, err := archive.Read(ctx, l.cfg.Temp, r)
	if errors.Is(err, archive.ErrNoSpace) {
		return nil, err // it may be loaded when there is more space
	}
	if err != nil {
		return nil, inputError(ctx, err)
	}
	defer a.Close()
	images, err := a.Images(ThisPlatform(), as)
	if err != nil {
		return nil, inputError(ctx, err)
	}
	return l.load(ctx, load, images)
}

// ThisPlatform returns the platform of this machine.
func ThisPlatform() archive.Platform {
	return archive.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}
}

// LoadImages loads images of an archive that is open until this returns, under their
// names. An InputError reports that this runtime never can.
func (l *Loader) LoadImages(ctx context.Context, images []*archive.Image) ([]Image, error) {
	load, err := l.method(ctx)
	if err != nil {
		return nil, err
	}
	return l.load(ctx, load, images)
}

// TempSpace returns where archives are stored while they are loaded.
func (l *Loader) TempSpace() archive.TempSpace { return l.cfg.Temp }

func (l *Loader) load(ctx context.Context, load func(context.Context, []*archive.Image) error,
	images []*archive.Image) (loaded []Image, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := load(ctx, images); err != nil {
		return nil, fmt.Errorf("failed to load images: %w", err)
	}
	for _, i := range images {
		for _, name := range i.Names {
			loaded = append(loaded, Image{Name: name, ID: i.ID})
		}
	}
	return loaded, nil
}

// inputError blames the archive, unless the caller gave up.
func inputError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &InputError{Err: err}
}

// method returns how images get into this runtime. An InputError reports that there
// is no way, and what to use instead.
func (l *Loader) method(ctx context.Context) (func(context.Context, []*archive.Image) error, error) {
	if l.cfg.Private != nil {
		return l.serve, nil
	}
	version, err := l.cfg.Client.Version(ctx)
	if err != nil {
		return nil, err
	}
	switch version.Name {
	case "containerd":
		socket := strings.TrimPrefix(l.cfg.Client.Endpoint(), "unix://")
		ctr, err := archive.FindCtr(ctx, socket)
		if err != nil {
			return nil, &InputError{Err: err}
		}
		return func(ctx context.Context, images []*archive.Image) error {
			return l.importWith(ctx, ctr, socket, images)
		}, nil
	case "cri-o":
		return nil, &InputError{Err: errors.New("CRI-O pulls images from registries only; it shares its image store with " +
			"podman, so load the archive as root with: podman load --input ARCHIVE")}
	case "docker":
		return nil, &InputError{Err: errors.New("images of Docker are loaded with its own command: docker load --input " +
			"ARCHIVE")}
	}
	return nil, &InputError{Err: fmt.Errorf("runtime %q pulls images from registries only; load the archive with a "+
		"command of that runtime", version.Name)}
}

// Waits for an imported image to be visible through CRI: containerd notifies its
// CRI plugin of an import with an event.
const (
	visibleTimeout = 3 * time.Minute
	visiblePeriod  = 50 * time.Millisecond
)

// importWith imports images with containerd's own command.
func (l *Loader) importWith(ctx context.Context, ctr, socket string, images []*archive.Image) error {
	var names, visible []string
	before := map[string]string{}
	for _, i := range images {
		for _, name := range i.Names {
			stored, _, err := l.cfg.Client.StoredImage(ctx, name)
			if err != nil {
				return err
			}
			before[name] = stored.ID
			names = append(names, name)
		}
	}
	err := l.cfg.Images.Add(ctx, names, func() error {
		if err := archive.Import(ctx, ctr, socket, images); err != nil {
			return err
		}
		for _, i := range images {
			for _, name := range i.Names {
				if err := l.awaitVisible(ctx, name, i.ID); err != nil {
					return err
				}
				visible = append(visible, name)
			}
		}
		return nil
	})
	for _, name := range visible {
		l.cfg.Imported(ctx, name, before[name])
	}
	return err
}

// awaitVisible waits until the runtime lists an image under its name.
func (l *Loader) awaitVisible(ctx context.Context, name, id string) error {
	limit, cancel := context.WithTimeout(ctx, visibleTimeout)
	defer cancel()
	for {
		image, _, err := l.cfg.Client.StoredImage(limit, name)
		if err == nil && image.ID == id {
			return nil
		}
		if !retry.Sleep(limit, visiblePeriod) {
			return errors.Join(fmt.Errorf("image %q was imported, but the runtime does not list it", name), err, ctx.Err())
		}
	}
}
