package gc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// WriteWatcher reports the first write to a file after it was armed. Files that
// are not written to cost nothing, and files that are written to are not armed:
// reporting every write would cost more than the writes.
type WriteWatcher interface {
	// Arm watches a file for its next write. It may be armed again after that.
	Arm(path string) error
	// Disarm stops that.
	Disarm(path string)
	// Written returns the channel of paths that were written to.
	Written() <-chan string
}

// noWriteWatcher reports nothing.
type noWriteWatcher struct{}

func (noWriteWatcher) Arm(string) error       { return errors.New("the kernel supports no watches") }
func (noWriteWatcher) Disarm(string)          {}
func (noWriteWatcher) Written() <-chan string { return nil }

// inotify is a WriteWatcher that uses inotify(7) with one-shot watches.
type inotify struct {
	file    *os.File
	written chan string

	mu    sync.Mutex
	paths map[int32]string
	wds   map[string]int32
}

// newInotify opens an instance of inotify.
func newInotify() (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("failed to watch logs: %w; raise fs.inotify.max_user_instances", err)
	}
	return &inotify{
		file: os.NewFile(uintptr(fd), "inotify"), written: make(chan string),
		paths: map[int32]string{}, wds: map[string]int32{},
	}, nil
}

// Arm implements WriteWatcher.
func (w *inotify) Arm(path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	wd := 0
	var err error
	control(w.file, func(fd int) {
		wd, err = unix.InotifyAddWatch(fd, path, unix.IN_MODIFY|unix.IN_ONESHOT|unix.IN_DONT_FOLLOW)
	})
	if err != nil {
		return err
	}
	w.paths[int32(wd)], w.wds[path] = path, int32(wd)
	return nil
}

// Disarm implements WriteWatcher.
func (w *inotify) Disarm(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wd, ok := w.wds[path]
	if !ok {
		return
	}
	delete(w.wds, path)
	delete(w.paths, wd)
	// A watch that has fired is gone already.
	control(w.file, func(fd int) { _, _ = unix.InotifyRmWatch(fd, uint32(wd)) })
}

// Written implements WriteWatcher.
func (w *inotify) Written() <-chan string { return w.written }

func control(f *os.File, use func(fd int)) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { use(int(fd)) })
	}
}

// run passes events on until ctx ends.
func (w *inotify) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = w.file.Close() })
	defer stop()
	// Watches of files have no names: each event has the same size.
	buf := make([]byte, 64*unix.SizeofInotifyEvent)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return // closed
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			name := int(binary.NativeEndian.Uint32(b[12:]))
			b = b[min(len(b), unix.SizeofInotifyEvent+name):]
			for _, path := range w.fired(wd, mask) {
				select {
				case w.written <- path:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// fired returns the files that an event reports.
func (w *inotify) fired(wd int32, mask uint32) (paths []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for path := range w.wds {
			paths = append(paths, path)
		}
		clear(w.paths)
		clear(w.wds)
		return paths
	}
	path, ok := w.paths[wd]
	if !ok {
		return nil
	}
	// It has fired, or its file was removed: the watch is gone.
	delete(w.paths, wd)
	if w.wds[path] == wd {
		delete(w.wds, path)
	}
	return []string{path}
}
