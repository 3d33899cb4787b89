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

// maxLinks bounds the symbolic links of one path, as the kernel does.
const maxLinks = 40

// watchPlan is every folder in which something could happen that changes what
// is read: the manifest folder itself, and each folder in which a name on the
// way to it, or to the target of a link in it, is looked up. Keys are paths
// without links, so that no folder is there twice.
type watchPlan map[string]*watchedDirectory

// watchedFolder is one of them.
type watchedDirectory struct {
	// device and inode tell whether another folder has taken its place.
	device, inode uint64
	// manifests says that every manifest in it matters, and not names alone.
	manifests bool
	names     map[string]bool
}

// follow adds what is on the way to path and returns where it ends, empty if
// that does not exist.
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

func (p watchPlan) add(folder string) *watchedDirectory {
	if p[folder] == nil {
		watched := &watchedDirectory{names: map[string]bool{}}
		if info, err := os.Lstat(folder); err == nil {
			watched.device, watched.inode = deviceAndInode(info)
		}
		p[folder] = watched
	}
	return p[folder]
}

// sameFolders reports whether the folders to watch are those of another plan.
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

// plan is what is to be watched as things stand.
func (s *FileSource) plan() watchPlan {
	plan := watchPlan{}
	end := plan.follow(s.path)
	if end == "" {
		return plan
	}
	if info, err := os.Lstat(end); err == nil && info.IsDir() {
		plan.add(end).manifests = true
	}
	for path, unit := range s.units {
		if unit.isLink {
			plan.follow(path)
		}
	}
	return plan
}

// watchStream is a running watch of some folders.
type watchStream struct {
	events <-chan fsnotify.Event
	errs   <-chan error
	close  func() error
}

// openInotify watches the folders. One that vanished meanwhile, or that may
// not be watched, is left out: the next look tells more.
func openInotify(folders []string) (*watchStream, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		err := watcher.Add(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			watcher.Close()
			return nil, fmt.Errorf("%s: %w", folder, err)
		}
	}
	return &watchStream{events: watcher.Events, errs: watcher.Errors, close: watcher.Close}, nil
}

func isOverflow(err error) bool { return errors.Is(err, fsnotify.ErrEventOverflow) }

// directoryWatch keeps a watch on the folders of a plan. If there can be none,
// the periodic look has to do.
type directoryWatch struct {
	open   func(folders []string) (*watchStream, error)
	log    *slog.Logger
	stream *watchStream
	plan   watchPlan
	// said is the trouble that was logged last.
	loggedProblem string
}

// channels are those of the running watch, nil if there is none.
func (w *directoryWatch) channels() (<-chan fsnotify.Event, <-chan error) {
	if w.stream == nil {
		return nil, nil
	}
	return w.stream.events, w.stream.errs
}

// apply sees that the folders of the plan are watched. The watch is opened
// anew whenever they change, which is seldom: that cannot leave a watch on a
// folder that was renamed away.
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

// covers reports whether there is nothing in the plan that goes unseen, or
// nothing to be done about it.
func (w *directoryWatch) covers(plan watchPlan) bool {
	return w.stream == nil || w.plan.same(plan)
}

// fail gives up a watch that broke; the next look opens another.
func (w *directoryWatch) fail(err error) {
	w.close()
	if err == nil {
		err = errors.New("the watch was closed")
	}
	w.logProblem(err)
}

// say logs a trouble once until it changes.
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
		w.stream.close()
		w.stream = nil
	}
}

// concern is what an event is about.
type eventKind uint8

const (
	eventIgnored eventKind = iota
	// eventManifest is a manifest in the folder.
	eventManifest
	// eventPath is the way to the folder or to the target of a link.
	eventPath
)

// concerns sorts an event by its path.
func (w *directoryWatch) classify(path string) eventKind {
	if w.plan[path] != nil {
		return eventPath // a watched folder itself
	}
	folder, name := w.plan[filepath.Dir(path)], filepath.Base(path)
	switch {
	case folder == nil:
		return eventIgnored
	case folder.names[name]:
		return eventPath
	case folder.manifests && IsManifestFile(name):
		return eventManifest
	}
	return eventIgnored
}
