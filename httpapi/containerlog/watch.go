package containerlog

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
)

// watch notifies a stream of changes in the directory.
type watch struct {
	dir     string
	watcher *fsnotify.Watcher
	// notify has capacity for one notification; further ones coalesce.
	notify chan struct{}
	// names is set when a file was created, removed or renamed. It is initially set.
	names atomic.Bool
	done  sync.WaitGroup
}

func openWatch(dir string) (*watch, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("failed to follow the log: %w; for many followed logs, increase fs.inotify.max_user_instances", err)
	}
	if err := watcher.Add(dir); err != nil {
		_ = watcher.Close()
		return nil, fmt.Errorf("failed to follow the log: %w", err)
	}
	w := &watch{dir: dir, watcher: watcher, notify: make(chan struct{}, 1)}
	w.names.Store(true)
	w.done.Go(w.run)
	return w, nil
}

// run reads events without delay, so that the kernel's queue does not overflow while a slow
// client is written to. An overflow counts as a change of all names.
func (w *watch) run() {
	for {
		select {
		case e, ok := <-w.watcher.Events:
			if !ok {
				return
			}
			if e.Op&^(fsnotify.Write|fsnotify.Chmod) != 0 {
				w.names.Store(true)
			} else if !e.Has(fsnotify.Write) {
				continue
			}
		case _, ok := <-w.watcher.Errors:
			if !ok {
				return
			}
			w.names.Store(true)
		}
		select {
		case w.notify <- struct{}{}:
		default:
		}
	}
}

// link also watches the directory of the file to which path links, if it is another one: the
// logs of cri-dockerd are links to Docker's directory. If this fails, the log is still read
// whenever the state of its container changes.
func (w *watch) link(path string) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	dir, err := filepath.EvalSymlinks(w.dir)
	if err == nil && filepath.Dir(target) != dir {
		_ = w.watcher.Add(filepath.Dir(target))
	}
}

func (w *watch) close() {
	_ = w.watcher.Close()
	w.done.Wait()
}
