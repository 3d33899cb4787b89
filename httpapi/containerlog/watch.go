package containerlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/podstead/podstead/internal/wakeup"
)

// pollInterval is how often a log is read if inotify cannot report its changes.
const pollInterval = time.Second

// newWatcher is replaced by a test that has no inotify.
var newWatcher = fsnotify.NewWatcher

// watch notifies a stream of changes in the directory.
type watch struct {
	dir string
	// watcher is nil if the kernel has no inotify instance or watch left: the log is polled.
	// Each user has 128 instances by default, which all programs of root share.
	watcher *fsnotify.Watcher
	changed wakeup.Signal
	// names is set when a file was created, removed or renamed. It is initially set.
	names atomic.Bool
	// closed ends polling.
	closed chan struct{}
	done   sync.WaitGroup
}

// openWatch watches a directory. The error is that of a directory that cannot be read.
func openWatch(dir string) (*watch, error) {
	w := &watch{dir: dir, changed: wakeup.NewSignal(), closed: make(chan struct{})}
	w.names.Store(true)
	var err error
	if w.watcher, err = newWatcher(); err == nil {
		if err = w.watcher.Add(dir); err != nil {
			_ = w.watcher.Close()
			w.watcher = nil
		}
	}
	switch {
	case err == nil:
		w.done.Go(w.run)
	case exhausted(err):
		w.done.Go(w.poll)
	default:
		return nil, fmt.Errorf("failed to follow the log: %w", err)
	}
	return w, nil
}

// exhausted reports whether inotify fails because of a limit on its instances or watches.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOSPC)
}

// poll counts each interval as a change of all names.
func (w *watch) poll() {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-w.closed:
			return
		case <-tick.C:
			w.names.Store(true)
			w.changed.Notify()
		}
	}
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
		w.changed.Notify()
	}
}

// link also watches the directory of the file to which path links, if it is another one: the
// logs of cri-dockerd are links to Docker's directory. If this fails, the log is still read
// whenever the state of its container changes.
func (w *watch) link(path string) {
	if w.watcher == nil {
		return
	}
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
	close(w.closed)
	if w.watcher != nil {
		_ = w.watcher.Close()
	}
	w.done.Wait()
}
