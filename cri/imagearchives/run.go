package imagearchives

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/archive"
	"github.com/podstead/podstead/cri/imageload"
)

// Loader loads images into the runtime. *imageload.Loader implements it.
type Loader interface {
	LoadImages(ctx context.Context, images []*archive.Image) ([]imageload.Image, error)
	// TempSpace returns where the contents of compressed archives are stored.
	TempSpace() archive.TempSpace
}

// Runtime is what the images are loaded into.
type Runtime struct {
	// Images lists what the runtime has. *cri.Client implements it.
	Images interface {
		StoredImages(ctx context.Context) ([]cri.StoredImage, error)
	}
	Loader Loader
	// Loaded is called with images that were loaded, or found in the runtime as an
	// archive has them.
	Loaded func([]imageload.Image)
	// Changed is called when pods that wait for an image should try again.
	Changed func()
}

// withoutWatch is the time between two scans of a directory that cannot be watched.
const withoutWatch = 20 * time.Second

// Run loads what is in the directory, and what comes there, until ctx ends. It does nothing
// while nothing changes.
func (d *Directory) Run(ctx context.Context, rt Runtime) error {
	var w *watch
	defer func() {
		if w != nil {
			w.close()
		}
	}()
	d.verify(ctx, rt)
	logged := ""
	for ctx.Err() == nil {
		_ = os.MkdirAll(d.cfg.Dir, 0o755) // list reports why it is not there
		if !w.covers(d.cfg.Dir) {
			if w != nil {
				w.close()
			}
			var err error
			if w, err = newWatch(d.cfg.Dir); err == nil {
				w.start(d.observe)
				logged = ""
			} else if logged != err.Error() {
				logged = err.Error()
				d.cfg.Log.Warn("Failed to watch the directory of image archives, relying on periodic scans; if a limit is "+
					"reached, raise fs.inotify.max_user_instances with sysctl", "dir", d.cfg.Dir, "err", err)
			}
		}
		if d.scan(ctx) {
			rt.Changed()
		}
		f, at := d.next(time.Now())
		if f != nil {
			d.process(ctx, rt, f)
			continue
		}
		if w == nil {
			d.observe("", true)
			at = time.Now().Add(withoutWatch)
			select {
			case <-d.wake.C(): // its own
			default:
			}
		}
		d.await(ctx, at)
	}
	return ctx.Err()
}

// await waits until there is something to do, at the latest at the given time, forever if
// it is zero.
func (d *Directory) await(ctx context.Context, at time.Time) {
	var due <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-d.wake.C():
	case <-due:
	}
}

// observe handles an event of the watch.
func (d *Directory) observe(name string, changed bool) {
	if changed {
		d.mu.Lock()
		d.dirty[name] = true
		d.mu.Unlock()
	}
	d.wake.Notify()
}

// errSuperseded cancels the load of an archive that was changed or removed.
var errSuperseded = errors.New("the archive was changed or removed")

// process reads and loads an archive, unless it is changed or removed meanwhile.
func (d *Directory) process(ctx context.Context, rt Runtime, f *file) {
	if d.settle(f) {
		if d.release(f) {
			rt.Changed()
		}
		return
	}
	loading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- d.load(loading, rt, f) }()
	for {
		select {
		case err := <-done:
			d.finish(f, err)
			if ctx.Err() != nil {
				return
			}
			d.release(f)
			d.save()
			rt.Changed()
			return
		case <-d.wake.C():
			if d.scan(ctx) {
				rt.Changed()
			}
			if !d.isCurrent(f) {
				cancel(errSuperseded)
			}
		}
	}
}

func (d *Directory) isCurrent(f *file) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[f.name] == f
}

// release records that an archive is no longer being loaded, and reports whether a pod
// waits for one of its images.
func (d *Directory) release(f *file) (needed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range f.names {
		needed = needed || d.needed[name]
		delete(d.needed, name)
	}
	d.changed.Notify()
	return needed
}
