package imagearchives

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// watch is an inotify watch of one directory. fsnotify does not report that a file was
// closed after it was written, and reports each write of a copy that takes minutes.
type watch struct {
	file *os.File
	// device and inode are those of the directory.
	device, inode uint64
	// ended is set when there will be no more events.
	ended atomic.Bool
	// done is closed when nothing is reported any more.
	done chan struct{}
}

// watchMask are the events after which a file may be complete, may be read, or is gone. A
// hard link is only created.
const watchMask = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE |
	unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// newContent are the events after which a file has another content.
const newContent = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_CREATE

// newWatch watches the directory at path.
func newWatch(path string) (*watch, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify_init1: %w", err)
	}
	if _, err := unix.InotifyAddWatch(fd, path, watchMask); err != nil {
		return nil, errors.Join(fmt.Errorf("inotify_add_watch: %w", err), unix.Close(fd))
	}
	return &watch{file: os.NewFile(uintptr(fd), "inotify"), device: stat.Dev, inode: stat.Ino, done: make(chan struct{})},
		nil
}

// covers reports whether the directory at path is the one that is watched.
func (w *watch) covers(path string) bool {
	var stat unix.Stat_t
	return w != nil && !w.ended.Load() && unix.Stat(path, &stat) == nil && stat.Dev == w.device && stat.Ino == w.inode
}

// start passes each event to report until close, or until the watch fails. The name is empty if
// events were lost.
func (w *watch) start(report func(name string, changed bool)) {
	go func() {
		defer close(w.done)
		w.read(report)
	}()
}

func (w *watch) read(report func(name string, changed bool)) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			w.ended.Store(true)
			report("", true)
			return
		}
		for data := buffer[:n]; len(data) >= unix.SizeofInotifyEvent; {
			mask := binary.NativeEndian.Uint32(data[4:])
			length := int(binary.NativeEndian.Uint32(data[12:]))
			name := strings.TrimRight(string(data[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length]), "\x00")
			data = data[unix.SizeofInotifyEvent+length:]
			if mask&unix.IN_IGNORED != 0 {
				w.ended.Store(true) // the directory is gone; its number may be used again
			}
			report(name, mask&newContent != 0 || mask&unix.IN_Q_OVERFLOW != 0)
		}
	}
}

// close ends a watch that was started.
func (w *watch) close() {
	_ = w.file.Close()
	<-w.done
}
