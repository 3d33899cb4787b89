package imagearchives

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/archive"
	"github.com/podstead/podstead/cri/imageload"
	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/fileaccess"
)

// errIncomplete reports that a process is still writing the archive.
var errIncomplete = errors.New("a process is still writing it; it is loaded when that closes the file")

// permanentError is a fault of the archive: trying again is useless.
type permanentError struct{ message string }

func (e *permanentError) Error() string { return e.message }

// verify forgets the images that the runtime no longer has, so that they are loaded again.
// If the runtime does not respond, a pod that needs one of them reports it.
func (d *Directory) verify(ctx context.Context, rt Runtime) {
	d.mu.Lock()
	known := len(d.files)
	d.mu.Unlock()
	if known == 0 {
		return
	}
	stored, err := rt.Images.StoredImages(ctx)
	if err != nil {
		return
	}
	ids := byName(stored)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.files {
		for name := range f.loaded {
			if ids[name] == "" {
				delete(f.loaded, name)
			}
		}
	}
}

// byName returns the IDs of images by their tags.
func byName(stored []cri.StoredImage) map[string]string {
	ids := map[string]string{}
	for _, i := range stored {
		for _, tag := range i.Tags {
			ids[tag] = i.ID
		}
	}
	return ids
}

// settle decides about an archive as far as that is possible without reading it, and
// reports whether it is decided.
func (d *Directory) settle(f *file) bool {
	d.mu.Lock()
	fault := f.refused
	if fault == "" && f.wasRead {
		fault = f.check()
	}
	loaded := fault == "" && f.wasRead && len(d.due(f)) == 0
	if fault == "" && !loaded {
		f.state, f.message = Loading, ""
		d.changed.Notify()
	}
	d.mu.Unlock()
	switch {
	case fault != "":
		d.finish(f, &permanentError{fault})
	case loaded:
		d.finish(f, nil)
	default:
		return false
	}
	return true
}

// finish records the result of a load.
func (d *Directory) finish(f *file, err error) {
	d.mu.Lock()
	before := f.message
	var permanent *permanentError
	switch {
	case err == nil:
		f.state, f.message, f.retry, f.delay = Loaded, "", time.Time{}, 0
	case errors.Is(err, errSuperseded), errors.Is(err, context.Canceled):
		f.state, f.message = Waiting, ""
	case errors.Is(err, errIncomplete):
		f.state, f.message = Incomplete, err.Error()
	default:
		f.fail(err.Error(), !errors.As(err, &permanent), time.Now())
	}
	state, message, names := f.state, f.message, slices.Clone(f.names)
	d.mu.Unlock()
	path := d.path(f.name)
	switch {
	case state == Loaded:
		d.cfg.Log.Info("Image archive loaded", "file", path, "images", names)
	case state == Failed && message != before:
		d.cfg.Log.Warn("Failed to load image archive", "file", path, "err", message)
		if !errors.Is(err, cri.ErrUnavailable) {
			d.cfg.Events.Event(nil, v1.EventTypeWarning, reasonFailed, "Image archive "+path+": "+message)
		}
	}
}

// load reads an archive and loads those of its images that are due.
func (d *Directory) load(ctx context.Context, rt Runtime, f *file) error {
	if f.wasRead {
		if rest, err := d.findPresent(ctx, rt, f); err != nil || len(rest) == 0 {
			return err
		}
	}
	a, images, err := d.open(ctx, rt, f)
	if err != nil {
		return err
	}
	defer a.Close()
	d.learn(f, a.Digest(), images)
	if fault := f.check(); fault != "" {
		return &permanentError{fault}
	}
	due, err := d.findPresent(ctx, rt, f)
	if err != nil || len(due) == 0 {
		return err
	}
	images = slices.DeleteFunc(images, func(i *archive.Image) bool {
		i.Names = slices.DeleteFunc(i.Names, func(name string) bool { return !slices.Contains(due, name) })
		return len(i.Names) == 0
	})
	loaded, err := rt.Loader.LoadImages(ctx, images)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var input *imageload.InputError
	if errors.As(err, &input) {
		return &permanentError{input.Error()}
	}
	if err != nil {
		return err
	}
	d.markLoaded(f, due)
	rt.Loaded(loaded)
	d.cfg.Events.Event(nil, v1.EventTypeNormal, reasonLoaded,
		"Loaded "+strings.Join(due, ", ")+" from image archive "+d.path(f.name))
	return nil
}

// open opens an archive and verifies its structure and the digests of its parts.
func (d *Directory) open(ctx context.Context, rt Runtime, f *file) (*archive.Archive, []*archive.Image, error) {
	path := d.path(f.name)
	file, err := boundedfile.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, errSuperseded
	case errors.Is(err, boundedfile.ErrNotRegular), errors.Is(err, syscall.ELOOP):
		return nil, nil, &permanentError{"is not a regular file: remove it"}
	case err != nil:
		return nil, nil, errors.New("cannot be read: " + plain(err) + "; check the file system")
	}
	if fileaccess.HasWriter(file) {
		_ = file.Close()
		return nil, nil, errIncomplete
	}
	a, err := archive.Open(ctx, rt.Loader.TempSpace(), file)
	var images []*archive.Image
	if err == nil {
		images, err = a.Images(imageload.ThisPlatform(), "")
	}
	info, statErr := os.Lstat(path)
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(statErr, fs.ErrNotExist), statErr == nil && identify(info) != f.id:
		err = errSuperseded
	case err == nil:
		return a, images, nil
	case !errors.Is(err, archive.ErrNoSpace) && !isIOError(err):
		err = &permanentError{err.Error()}
	}
	if a != nil {
		a.Close()
	}
	return nil, nil, err
}

// isIOError reports whether an error comes from the disk and not from the archive.
func isIOError(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno)
}

// learn records what an archive contains.
func (d *Directory) learn(f *file, digest string, images []*archive.Image) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.digest, f.images, f.names, f.wasRead = digest, map[string]imageDigests{}, nil, true
	for _, i := range images {
		pinned := i.Pinned()
		for k, name := range i.Names {
			if _, ok := f.images[name]; !ok {
				f.names = append(f.names, name)
			}
			f.images[name] = imageDigests{ID: i.ID, Pinned: pinned[k]}
		}
	}
	d.changed.Notify()
}

// findPresent marks the due images that the runtime has already as the archive has them,
// and returns the others.
func (d *Directory) findPresent(ctx context.Context, rt Runtime, f *file) (rest []string, err error) {
	stored, err := rt.Images.StoredImages(ctx)
	if err != nil {
		return nil, err
	}
	ids := byName(stored)
	d.mu.Lock()
	var present []string
	var images []imageload.Image
	for _, name := range d.due(f) {
		if id := f.images[name].ID; id != "" && ids[name] == id {
			present = append(present, name)
			images = append(images, imageload.Image{Name: name, ID: id})
		} else {
			rest = append(rest, name)
		}
	}
	d.mu.Unlock()
	if len(present) > 0 {
		d.markLoaded(f, present)
		rt.Loaded(images)
	}
	return rest, nil
}

// markLoaded records that the runtime has images of an archive, and no longer those that
// another archive has under the same names.
func (d *Directory) markLoaded(f *file, names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		for _, other := range d.files {
			delete(other.loaded, name)
		}
		f.loaded[name] = true
	}
}
