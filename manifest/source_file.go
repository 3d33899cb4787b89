package manifest

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/podstead/podstead/internal/wakeup"
)

const (
	// defaultRescan is the kubelet's fileCheckFrequency.
	defaultRescan = 20 * time.Second
	// settleQuiet is how long a directory must be quiet before it is scanned,
	// so that a file that is written in steps is read once and complete.
	settleQuiet = 50 * time.Millisecond
	// settleComplete replaces settleQuiet after the event of a file that appears complete, because
	// it was renamed into place. One that is created and then written has further events.
	settleComplete = 5 * time.Millisecond
	// settleBound is how long a burst of changes can delay the scan.
	settleBound = 150 * time.Millisecond
	// confirmDelay is the time between the scan that misses a file and the scan
	// that confirms that.
	confirmDelay = time.Second
	// busyDelay is the time between two checks of a file that is being written.
	busyDelay = 100 * time.Millisecond
	// busyTimeout is how long a file that a process keeps open for writing,
	// without writing, is not read.
	busyTimeout = 2 * time.Second
)

// FileSourceOptions configures a FileSource.
type FileSourceOptions struct {
	// Path is a directory, or a single manifest file.
	Path string
	// Node is the name of this node: pods of the checkpoint with another node
	// name are validated again. Empty uses them as they are.
	Node string
	// Rescan is the time between two scans without a notification; zero means
	// 20 seconds, the kubelet's fileCheckFrequency.
	Rescan     time.Duration
	Loader     UnitLoader
	Checkpoint *Checkpoint
	Deliver    Deliverer
	Log        *slog.Logger
	// Keys verify the signatures of files, in files next to them; nil accepts unsigned
	// files.
	Keys Verifier
	// Scanned is called after each scan of the directory; nil is not called.
	Scanned func(at time.Time)
}

// FileSource delivers the manifests of a directory or of a single file.
//
// It reads regular files, and symbolic links to them, whose names end in .yaml,
// .yml or .json and do not begin with a dot; the kubelet reads all names. It
// does not descend into subdirectories. inotify notifies it, and it scans every
// Rescan as well, so that a lost event only costs time.
//
// A manifest that exists but is invalid or unreadable keeps its last good
// revision. One that no longer exists is removed when a second scan, one second
// later, does not find it either. A directory that cannot be read removes
// nothing: neither one that is absent, nor one that was replaced by anything but
// a directory, nor one that was replaced by a directory without a valid
// manifest. The latter is what an unmounted file system leaves behind, and cannot
// be distinguished from the user's wish to stop every pod; that is expressed by an
// empty PodList, or by removing the files themselves.
type FileSource struct {
	opts   FileSourceOptions
	path   string
	log    *slog.Logger
	reader unitReader
	watch  directoryWatch
	// readDir is os.ReadDir, except in tests.
	readDir func(string) ([]fs.DirEntry, error)
	// inspectFile is inspectFile, except in tests.
	inspectFile func(path string, read func(fs.FileInfo) bool) inspection
	// unblocked receives when an access to a file that blocked has ended,
	// progress when a scan goes on.
	unblocked, progress wakeup.Signal

	units map[string]*fileUnit
	due   fileSchedule
	state fileState
	// last is the set that was delivered last, before the first one what the
	// checkpoint has.
	last Set
}

// fileState is what the last scan found out about the directory.
type fileState struct {
	// fault is why the directory could not be read; nil if it could.
	fault *Fault
	// directory is what the units in effect were read from. If it is restored
	// from the checkpoint, its device number is not reliable.
	directory directoryIdentity
	restored  bool
	// disappeared reports that the directory has been missing since.
	disappeared bool
	// candidates are the files of a directory that is not trusted, by path.
	candidates map[string]*fileUnit
	// isFile reports that the path is that of a file.
	isFile bool
	// deliveredAny reports that a set was delivered in this run of the daemon,
	// delivered that a complete one was.
	deliveredAny, delivered bool
	// removed are the units whose absence was confirmed since the last set.
	removed []string
	// loggedIgnored are the ignored names that were logged.
	loggedIgnored map[string]bool
	// ignored are the names in the directory that are not read, see IsIgnored.
	ignored []string
}

// fileSchedule holds the time of the next scan for each reason; a zero time is
// no reason.
type fileSchedule struct {
	rescan, confirm, busy time.Time
	// settled is when the directory has been quiet long enough, settledBy when
	// the scan is no longer delayed.
	settled, settledBy time.Time
}

// NewFileSource creates a FileSource; it reads and starts nothing.
func NewFileSource(opts FileSourceOptions) *FileSource {
	if opts.Rescan <= 0 {
		opts.Rescan = defaultRescan
	}
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		// There is no current directory: the path means nothing, which the scan
		// will report.
		path = filepath.Clean(opts.Path)
	}
	return &FileSource{
		opts: opts,
		path: path,
		log:  opts.Log,
		reader: unitReader{source: SourceFile, node: opts.Node, loader: opts.Loader, checkpoint: opts.Checkpoint,
			keys: opts.Keys, hadGood: map[string]bool{}},
		watch:   directoryWatch{open: openInotify, log: opts.Log},
		readDir: os.ReadDir,
		units:   map[string]*fileUnit{},

		inspectFile: inspectFile,
		unblocked:   wakeup.NewSignal(),
		progress:    wakeup.NewSignal(),
	}
}

// Run delivers the first set immediately and then one after each change, until
// ctx ends. It returns no error: any problem is a fault of the set and may be
// temporary. A scan that hangs in the kernel is abandoned when ctx ends.
func (s *FileSource) Run(ctx context.Context) error {
	s.restore()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		events, errs := s.watch.channels()
		select {
		case <-ctx.Done():
			s.watch.close()
			return nil
		case event, ok := <-events:
			s.handleEvent(event, ok, time.Now())
		case err, ok := <-errs:
			s.handleWatchError(err, ok, time.Now())
		case <-s.unblocked.C():
			s.due.settled = time.Now()
		case <-timer.C:
			if !s.scan(ctx) {
				return nil
			}
		}
		timer.Reset(time.Until(s.due.next()))
	}
}

// restore loads the units that the checkpoint has of this source.
func (s *FileSource) restore() {
	s.state.directory, s.state.restored = s.opts.Checkpoint.directory(SourceFile), true
	for _, unit := range s.opts.Checkpoint.units(SourceFile) {
		s.units[unit.Name] = &fileUnit{path: unit.Name, offered: s.reader.lastGood(unit.Name, unit.Faults), known: true}
	}
	s.state.isFile = IsManifestFile(filepath.Base(s.path)) || s.units[s.path] != nil
	s.last, _ = s.set(time.Time{})
}

// handleEvent delays the next scan a little, so that changes made in steps are
// seen together.
func (s *FileSource) handleEvent(event fsnotify.Event, ok bool, now time.Time) {
	if !ok {
		s.handleWatchError(nil, false, now)
		return
	}
	path, quiet := event.Name, settleQuiet
	switch name := filepath.Base(path); s.watch.classify(path) {
	case eventIgnored:
		return
	case eventManifest:
		if event.Has(fsnotify.Create) {
			quiet = settleComplete
		}
		if unit := s.units[filepath.Join(s.path, strings.TrimSuffix(name, SignatureSuffix))]; unit != nil {
			unit.dirty = true
		}
	case eventPath:
		s.markAllDirty()
	}
	if s.due.settledBy.IsZero() {
		s.due.settledBy = now.Add(settleBound)
	}
	if at := now.Add(quiet); at.After(s.due.settled) {
		s.due.settled = at
	}
	if s.due.settledBy.Before(s.due.settled) {
		s.due.settled = s.due.settledBy
	}
}

// handleWatchError handles events that were or will be lost.
func (s *FileSource) handleWatchError(err error, ok bool, now time.Time) {
	s.markAllDirty()
	if ok && isOverflow(err) {
		s.log.Info("Too many changes in the manifest directory at once, rescanning", "path", s.path)
		s.due.settled = now
		return
	}
	s.watch.fail(err)
	// Not immediately, so that a persistent error does not cause a busy loop.
	s.due.settled = now.Add(confirmDelay)
}

// markAllDirty makes the next scan read every file again, whatever its times
// are.
func (s *FileSource) markAllDirty() {
	for _, unit := range s.units {
		unit.dirty = true
	}
}

// next returns the earliest time at which there is a reason to scan.
func (d *fileSchedule) next() time.Time {
	next := d.rescan
	for _, at := range []time.Time{d.confirm, d.busy, d.settled} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// earlier returns the earlier of two times, where zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
