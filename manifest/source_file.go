package manifest

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// defaultRescan is the kubelet's fileCheckFrequency.
	defaultRescan = 20 * time.Second
	// settleQuiet is how long a folder must be quiet before it is looked at:
	// a file that is written in steps is then read once, and whole.
	settleQuiet = 50 * time.Millisecond
	// settleBound is how long a burst of changes can put that off.
	settleBound = 150 * time.Millisecond
	// confirmDelay is the time between the look that misses a file and the one
	// that believes it.
	confirmDelay = time.Second
	// busyDelay is the time between two looks at a file that is being written.
	busyDelay = 100 * time.Millisecond
	// busyPatience is how long a file that somebody holds open for writing,
	// without writing, is left unread.
	busyTimeout = 2 * time.Second
)

// FileSourceOptions are what a FileSource needs.
type FileSourceOptions struct {
	// Path is a folder, or a single manifest file.
	Path string
	// Node is the name of this node: pods of the checkpoint that carry
	// another are judged anew. Empty takes them as they are.
	Node string
	// Rescan is the time between two looks without a sign of change; zero
	// means 20 seconds, the kubelet's fileCheckFrequency.
	Rescan     time.Duration
	Loader     UnitLoader
	Checkpoint *Checkpoint
	Deliver    Deliverer
	Log        *slog.Logger
}

// FileSource delivers the manifests of a folder or of a single file.
//
// It reads regular files, and links to such, whose names end in .yaml, .yml or
// .json and do not begin with a dot; the kubelet reads every name. It does not
// descend into folders. It is woken by inotify and looks by itself as well
// every Rescan, so that a lost event costs time and nothing else.
//
// A manifest that is there but broken or unreadable keeps its last good
// revision. One that is not there any more is dropped when a second look, one
// second later, does not find it either. A folder that cannot be read drops
// nothing: one that is absent, and one that was replaced by another without
// any manifest in it. The latter is what an unmounted file system leaves
// behind, and cannot be told from a person's wish to end every pod; that wish
// is spelled as an empty PodList, or as removing the files themselves.
type FileSource struct {
	opts   FileSourceOptions
	path   string
	log    *slog.Logger
	reader unitReader
	watch  directoryWatch
	// readDir is os.ReadDir but for tests.
	readDir func(string) ([]fs.DirEntry, error)

	units map[string]*fileUnit
	due   fileSchedule
	state fileState
}

// fileState is what the last look found out about the folder.
type fileState struct {
	// fault is why it could not be read, if it could not.
	fault *Fault
	// folder is what the units in effect were read from. If it is recalled
	// from the checkpoint, its device number says nothing.
	directory directoryIdentity
	restored  bool
	// vanished says that it was not there since.
	disappeared bool
	// single says that the path is that of a file.
	isFile bool
	// told says that there was a set in this run of the daemon, delivered
	// that there was a whole one.
	deliveredAny, delivered bool
	// mentioned are the names that were said not to be read.
	loggedIgnored map[string]bool
}

// fileSchedule is when to look next, for each reason there is; a zero time is
// no reason.
type fileSchedule struct {
	rescan, confirm, busy time.Time
	// settled is when the folder has been quiet long enough, settledBy when
	// that is not waited for any longer.
	settled, settledBy time.Time
}

// NewFileSource makes a FileSource; it reads and starts nothing.
func NewFileSource(opts FileSourceOptions) *FileSource {
	if opts.Rescan <= 0 {
		opts.Rescan = defaultRescan
	}
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		// There is no current folder: the path means nothing, which looking
		// at it will say.
		path = filepath.Clean(opts.Path)
	}
	return &FileSource{
		opts:    opts,
		path:    path,
		log:     opts.Log,
		reader:  unitReader{source: SourceFile, node: opts.Node, loader: opts.Loader, checkpoint: opts.Checkpoint, hadGood: map[string]bool{}},
		watch:   directoryWatch{open: openInotify, log: opts.Log},
		readDir: os.ReadDir,
		units:   map[string]*fileUnit{},
	}
}

// Run delivers the first set at once and then one after each change, until ctx
// ends. It returns no error: whatever goes wrong is a fault of the set and may
// pass.
func (s *FileSource) Run(ctx context.Context) error {
	defer s.watch.close()
	s.restore()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		events, errs := s.watch.channels()
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-events:
			s.handleEvent(event.Name, ok, time.Now())
		case err, ok := <-errs:
			s.handleWatchError(err, ok, time.Now())
		case <-timer.C:
			s.scan(time.Now())
		}
		timer.Reset(time.Until(s.due.next()))
	}
}

// recall takes up what the checkpoint has of this source.
func (s *FileSource) restore() {
	s.state.directory, s.state.restored = s.opts.Checkpoint.directory(SourceFile), true
	for _, unit := range s.opts.Checkpoint.units(SourceFile) {
		s.units[unit.Name] = &fileUnit{path: unit.Name, offered: s.reader.lastGood(unit.Name, unit.Faults), known: true}
	}
	s.state.isFile = IsManifestFile(filepath.Base(s.path)) || s.units[s.path] != nil
}

// noteEvent puts the next look a little off, so that what comes in steps is
// seen whole.
func (s *FileSource) handleEvent(path string, ok bool, now time.Time) {
	if !ok {
		s.handleWatchError(nil, false, now)
		return
	}
	switch name := filepath.Base(path); s.watch.classify(path) {
	case eventIgnored:
		return
	case eventManifest:
		if unit := s.units[filepath.Join(s.path, name)]; unit != nil {
			unit.dirty = true
		}
	case eventPath:
		s.markAllDirty()
	}
	if s.due.settledBy.IsZero() {
		s.due.settledBy = now.Add(settleBound)
	}
	s.due.settled = now.Add(settleQuiet)
	if s.due.settledBy.Before(s.due.settled) {
		s.due.settled = s.due.settledBy
	}
}

// noteError is about events that were or will be lost.
func (s *FileSource) handleWatchError(err error, ok bool, now time.Time) {
	s.markAllDirty()
	if ok && isOverflow(err) {
		s.log.Info("Too many changes in the manifest directory at once, rescanning", "path", s.path)
		s.due.settled = now
		return
	}
	s.watch.fail(err)
	// Not at once, lest an error that stays turns in circles.
	s.due.settled = now.Add(confirmDelay)
}

// distrust has every file read again at the next look, whatever its times say.
func (s *FileSource) markAllDirty() {
	for _, unit := range s.units {
		unit.dirty = true
	}
}

// look reads what changed, and delivers if that changed anything.
func (s *FileSource) scan(now time.Time) {
	s.due = fileSchedule{rescan: now.Add(s.opts.Rescan)}
	changed := false
	// Watch first, then look: what happens in between is an event. Looking can
	// reveal more to watch, which then is looked at once more.
	for range 3 {
		s.watch.apply(s.plan())
		changed = s.update(now) || changed
		if s.watch.covers(s.plan()) {
			break
		}
	}
	if changed || !s.state.deliveredAny {
		s.deliver(now)
	}
}

// deliver hands over the set as it is now.
func (s *FileSource) deliver(now time.Time) {
	set := Set{Source: SourceFile, Fault: s.state.fault, Time: now}
	whole := s.state.fault == nil || s.state.fault.Warning
	for _, unit := range s.units {
		switch {
		case !unit.known, unit.offered.Missing && !s.state.delivered:
			// It is not read yet; or it went while the daemon was away, and a
			// second look must confirm that. Starting its pods would be as
			// wrong as ending them, so that it is left out of a set that does
			// not count as delivered.
			whole = false
			continue
		case len(unit.offered.Documents) == 0 && unit.offered.Faults.Fatal() && s.opts.Checkpoint.wasLost(SourceFile):
			// What runs of it is known to the runtime alone.
			whole = false
		}
		set.Units = append(set.Units, unit.offered)
	}
	slices.SortFunc(set.Units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
	s.state.deliveredAny = true
	s.state.delivered = s.state.delivered || whole
	set.Restored = !s.state.delivered
	s.opts.Deliver.Deliver(set)
}

// next is the earliest time at which there is a reason to look.
func (d *fileSchedule) next() time.Time {
	next := d.rescan
	for _, at := range []time.Time{d.confirm, d.busy, d.settled} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// earlier is the earlier of two times, where zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
