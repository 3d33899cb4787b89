package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// maxLinks is the maximum number of symbolic links in one path, as in the
// kernel.
const maxLinks = 40

// watchPlan contains every directory in which a change can affect what is read:
// the manifest directory itself, and each directory in which a name on the path
// to it, or to the target of a link in it, is looked up. Keys are paths without
// links, so that each directory occurs once.
type watchPlan map[string]*watchedDirectory

// watchedDirectory is one directory of a watchPlan.
type watchedDirectory struct {
	// device and inode detect that another directory has replaced it.
	device, inode uint64
	// manifests reports that every manifest in the directory matters, and not
	// only names.
	manifests bool
	names     map[string]bool
}

// follow adds the directories on the way to path and returns where it ends,
// empty if that does not exist.
func (p watchPlan) follow(path string) string {
	at, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		p.add(at).names[name] = true
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return ""
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return ""
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at
}

func (p watchPlan) add(directory string) *watchedDirectory {
	if p[directory] == nil {
		watched := &watchedDirectory{names: map[string]bool{}}
		if info, err := os.Lstat(directory); err == nil {
			watched.device, watched.inode = deviceAndInode(info)
		}
		p[directory] = watched
	}
	return p[directory]
}

// sameDirectories reports whether both plans watch the same directories.
func (p watchPlan) sameDirectories(other watchPlan) bool {
	return maps.EqualFunc(p, other, func(a, b *watchedDirectory) bool {
		return a.device == b.device && a.inode == b.inode
	})
}

func (p watchPlan) same(other watchPlan) bool {
	return maps.EqualFunc(p, other, func(a, b *watchedDirectory) bool {
		return a.device == b.device && a.inode == b.inode && a.manifests == b.manifests && maps.Equal(a.names, b.names)
	})
}

// plan returns what is to be watched at present.
func (s *FileSource) plan() watchPlan {
	plan := watchPlan{}
	end := plan.follow(s.path)
	if end == "" {
		return plan
	}
	if info, err := os.Lstat(end); err == nil && info.IsDir() {
		plan.add(end).manifests = true
	} else if s.reader.keys != nil {
		plan.add(filepath.Dir(end)).names[filepath.Base(end)+SignatureSuffix] = true
	}
	for _, unit := range s.units {
		plan.merge(unit.links)
	}
	return plan
}

// merge adds the directories of another plan.
func (p watchPlan) merge(other watchPlan) {
	for directory, watched := range other {
		if p[directory] == nil {
			p[directory] = &watchedDirectory{device: watched.device, inode: watched.inode, names: map[string]bool{}}
		}
		maps.Copy(p[directory].names, watched.names)
	}
}

// watchStream is an open watch on directories.
type watchStream struct {
	events <-chan fsnotify.Event
	errs   <-chan error
	close  func() error
}

// openInotify watches the directories. It skips those that have disappeared or
// may not be watched, since the next scan reports them.
func openInotify(directories []string) (*watchStream, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	for _, directory := range directories {
		err := watcher.Add(directory)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			_ = watcher.Close()
			return nil, fmt.Errorf("%s: %w", directory, err)
		}
	}
	return &watchStream{events: watcher.Events, errs: watcher.Errors, close: watcher.Close}, nil
}

func isOverflow(err error) bool { return errors.Is(err, fsnotify.ErrEventOverflow) }

// directoryWatch watches the directories of a plan. If that is not possible,
// the periodic scans have to suffice.
type directoryWatch struct {
	open   func(directories []string) (*watchStream, error)
	log    *slog.Logger
	stream *watchStream
	plan   watchPlan
	// loggedProblem is the problem that was logged last.
	loggedProblem string
}

// channels returns the channels of the open watch, nil if there is none.
func (w *directoryWatch) channels() (<-chan fsnotify.Event, <-chan error) {
	if w.stream == nil {
		return nil, nil
	}
	return w.stream.events, w.stream.errs
}

// apply makes sure that the directories of the plan are watched. The watch is
// opened again whenever they change, which is rare, so that no watch remains on
// a directory that was renamed.
func (w *directoryWatch) apply(plan watchPlan) {
	if w.stream != nil && w.plan.sameDirectories(plan) {
		w.plan = plan
		return
	}
	w.close()
	w.plan = plan
	stream, err := w.open(slices.Sorted(maps.Keys(plan)))
	if err != nil {
		w.logProblem(err)
		return
	}
	w.stream = stream
	if w.loggedProblem != "" {
		w.log.Info("Watching the manifest directory again")
		w.loggedProblem = ""
	}
}

// covers reports whether everything in the plan is watched, or cannot be.
func (w *directoryWatch) covers(plan watchPlan) bool {
	return w.stream == nil || w.plan.same(plan)
}

// fail closes a watch that broke; the next scan opens another one.
func (w *directoryWatch) fail(err error) {
	w.close()
	if err == nil {
		err = errors.New("the watch was closed")
	}
	w.logProblem(err)
}

// logProblem logs a problem once until it changes.
func (w *directoryWatch) logProblem(err error) {
	if w.loggedProblem == err.Error() {
		return
	}
	w.loggedProblem = err.Error()
	w.log.Warn("Failed to watch the manifest directory, relying on periodic scans; "+
		"if a limit is reached, raise fs.inotify.max_user_watches or fs.inotify.max_user_instances with sysctl", "err", err)
}

func (w *directoryWatch) close() {
	if w.stream != nil {
		_ = w.stream.close()
		w.stream = nil
	}
}

// eventKind reports what an event affects.
type eventKind uint8

const (
	eventIgnored eventKind = iota
	// eventManifest is an event of a manifest in the directory.
	eventManifest
	// eventPath is an event on the path to the directory or to the target of a
	// link.
	eventPath
)

// classify returns the kind of an event by its path.
func (w *directoryWatch) classify(path string) eventKind {
	if w.plan[path] != nil {
		return eventPath // a watched directory itself
	}
	directory, name := w.plan[filepath.Dir(path)], filepath.Base(path)
	switch {
	case directory == nil:
		return eventIgnored
	case directory.names[name]:
		return eventPath
	case directory.manifests && (IsManifestFile(name) || isSignatureFile(name)):
		return eventManifest
	}
	return eventIgnored
}
