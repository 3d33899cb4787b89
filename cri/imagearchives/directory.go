package imagearchives

import (
	"cmp"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
)

// The reasons of the node's events.
const (
	reasonLoaded = "ImageArchiveLoaded"
	reasonFailed = "ImageArchiveFailed"
)

// Recorder records events. A nil pod is the node.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Config configures a Directory.
type Config struct {
	// Dir is the directory of the archives. It is created if it is missing.
	Dir string
	// File remembers what was loaded, so that a restart does not read it again.
	File   string
	Disk   statefile.Disk
	Events Recorder
	// Log may be nil.
	Log *slog.Logger
}

// Directory is a directory of image archives. All methods are safe for concurrent use.
type Directory struct {
	cfg   Config
	state *statefile.File[savedState]
	// wake notifies Run.
	wake wakeup.Signal
	// changed notifies subscribers after a result of Find may have changed.
	changed wakeup.Broadcast

	mu    sync.Mutex
	files map[string]*file
	// fault is why the directory is not read; empty if it is.
	fault string
	// ignored are the names of files that are no archives.
	ignored []string
	// needed are the images that pods asked for and that are not there yet.
	needed map[string]bool
	// dirty are the files of which the watch reported a change.
	dirty map[string]bool
}

// State is the state of an archive; see the package comment.
type State string

// The states of archives.
const (
	Waiting    State = "Waiting"
	Incomplete State = "Incomplete"
	Loading    State = "Loading"
	Loaded     State = "Loaded"
	Failed     State = "Failed"
)

// Archive is the state of one archive.
type Archive struct {
	// File is its path.
	File  string
	State State
	// Message reports why it has failed, or what it waits for; it may be empty.
	Message string
	// Images are the names of its images, as far as they are known.
	Images []string
	// Superseded are those of its images that another archive provides, by name, with
	// the path of that archive.
	Superseded map[string]string
}

// Status is the state of the directory.
type Status struct {
	Dir string
	// Fault is why the directory is not read; empty if it is.
	Fault string
	// Archives are sorted by file.
	Archives []Archive
	// Ignored are the names of files that are not read.
	Ignored []string
}

// New creates a Directory with what File remembers. It starts nothing.
func New(cfg Config) *Directory {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	d := &Directory{
		cfg: cfg, state: stateFormat.File(cfg.File, cfg.Disk), wake: wakeup.NewSignal(),
		files: map[string]*file{}, needed: map[string]bool{}, dirty: map[string]bool{},
	}
	files, err := loadState(d.state)
	if err != nil {
		cfg.Log.Warn("Failed to read which image archives were loaded, reading all of them again", "file", cfg.File, "err",
			err)
	}
	for _, f := range files {
		d.files[f.name] = f
	}
	return d
}

// Find implements cri.ImageArchives: it looks for an archive that contains an image, which
// is a full reference. present reports whether the runtime has the image: the archive of one
// that it lost is loaded again.
func (d *Directory) Find(image string, present bool) (cri.ArchivedImage, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.provider(d.tagged(image))
	if f == nil {
		if !present {
			// The watch may have missed it: a file system may have been mounted.
			d.wake.Notify()
		}
		return cri.ArchivedImage{}, false
	}
	found := cri.ArchivedImage{Archive: d.path(f.name)}
	switch {
	case d.fault != "":
		found.Fault = d.fault
	case f.state == Failed, f.state == Incomplete:
		found.Fault = f.message
	case f.state == Loaded && present:
	case f.state == Loaded:
		name := d.tagged(image)
		delete(f.loaded, name)
		f.state = Waiting
		fallthrough
	default:
		found.Loading = true
		if name := d.tagged(image); !d.needed[name] {
			d.needed[name] = true
			d.wake.Notify()
		}
	}
	return found, true
}

// Subscribe implements cri.ImageArchives.
func (d *Directory) Subscribe() (<-chan struct{}, func()) { return d.changed.Subscribe() }

// Images returns the names of all images that archives contain, to be kept from garbage
// collection.
func (d *Directory) Images() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.files {
		names = append(names, f.names...)
	}
	return names
}

// Status returns the state of the directory.
func (d *Directory) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Status{Dir: d.cfg.Dir, Fault: d.fault, Ignored: slices.Clone(d.ignored)}
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[name]
		a := Archive{File: d.path(name), State: f.state, Message: f.message, Images: slices.Sorted(slices.Values(f.names))}
		for _, image := range a.Images {
			if p := d.provider(image); p != nil && p != f && f.state != Failed {
				if a.Superseded == nil {
					a.Superseded = map[string]string{}
				}
				a.Superseded[image] = d.path(p.name)
			}
		}
		s.Archives = append(s.Archives, a)
	}
	return s
}

func (d *Directory) path(name string) string { return filepath.Join(d.cfg.Dir, name) }

// tagged returns the name with which archives have an image: of a reference with a digest
// that of the image with this digest, empty if there is none. The caller holds mu.
func (d *Directory) tagged(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	digested, ok := named.(reference.Digested)
	if !ok {
		return reference.TagNameOnly(named).String()
	}
	pinned := reference.TrimNamed(named).Name() + "@" + digested.Digest().String()
	for _, f := range d.files {
		for name, i := range f.images {
			if i.Pinned == pinned {
				return name
			}
		}
	}
	return ""
}

// provider returns the archive that an image is loaded from: of several that contain it
// the one that was modified last, and of those the one with the last name. Archives that
// cannot be loaded come last. The caller holds mu.
func (d *Directory) provider(image string) (best *file) {
	if image == "" {
		return nil
	}
	for _, f := range d.files {
		if slices.Contains(f.names, image) && (best == nil || compareFiles(f, best) > 0) {
			best = f
		}
	}
	return best
}

func compareFiles(a, b *file) int {
	usable := func(f *file) int {
		if f.state == Failed {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(usable(a), usable(b)), cmp.Compare(a.id.ModTime, b.id.ModTime), cmp.Compare(a.name, b.name))
}

// due returns those of the images of an archive that are to be loaded from it; the caller
// holds mu.
func (d *Directory) due(f *file) (names []string) {
	for _, name := range f.names {
		if !f.loaded[name] && d.provider(name) == f {
			names = append(names, name)
		}
	}
	return names
}

// next returns the archive to read or load, nil if there is none, and the time at which
// there will be one. Those that pods wait for come first.
func (d *Directory) next(now time.Time) (f *file, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault != "" {
		return nil, time.Time{}
	}
	var ready []*file
	for _, f := range d.files {
		if f.state == Loaded && len(d.due(f)) > 0 {
			f.state = Waiting // the archive that provided an image is gone
		}
		switch retry := f.retry; {
		case f.state != Waiting && (f.state != Failed || retry.IsZero()):
		case !retry.After(now):
			ready = append(ready, f)
		case at.IsZero() || retry.Before(at):
			at = retry
		}
	}
	if len(ready) == 0 {
		return nil, at
	}
	return slices.MinFunc(ready, func(a, b *file) int {
		return cmp.Or(cmp.Compare(d.urgency(a), d.urgency(b)), cmp.Compare(a.name, b.name))
	}), at
}

// urgency sorts archives: those that pods wait for, those with unknown contents, the rest.
func (d *Directory) urgency(f *file) int {
	switch {
	case slices.ContainsFunc(f.names, func(name string) bool { return d.needed[name] }):
		return 0
	case len(f.names) == 0:
		return 1
	}
	return 2
}
