package containerlog

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
)

// watch wakes a stream when something in the folder changes.
type watch struct {
	dir     string
	watcher *fsnotify.Watcher
	// wake has room for one wake-up; more coalesce.
	wake chan struct{}
	// names is set when a file came, went or was renamed. It begins set.
	names atomic.Bool
	done  sync.WaitGroup
}

func openWatch(dir string) (*watch, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("cannot follow the log: %w; many followers may need a higher fs.inotify.max_user_instances", err)
	}
	if err := watcher.Add(dir); err != nil {
		_ = watcher.Close()
		return nil, fmt.Errorf("cannot follow the log: %w", err)
	}
	w := &watch{dir: dir, watcher: watcher, wake: make(chan struct{}, 1)}
	w.names.Store(true)
	w.done.Go(w.run)
	return w, nil
}

// run takes events as fast as they come, so that the kernel's queue does not
// overflow while a slow client is written to. An overflow counts as a change of
// everything.
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
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// link watches the folder of the file that path links to, if it is another
// one: cri-dockerd's logs are links into Docker's folder. Without that watch
// the log is still read whenever its container's state changes.
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
