package devices

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hotPlugEvents are those after which a directory may have other devices. Writes to devices are not
// among them: with those, each line on a serial port would be an event.
const hotPlugEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// directories returns the directories in which an entry that appears or disappears may change which
// paths match the patterns. Of a directory that does not exist it is the one that would have it.
func (l *Local) directories(to map[string]bool) {
	for _, pattern := range l.Paths {
		parts := strings.Split(strings.TrimPrefix(filepath.Clean(pattern), "/"), "/")
		level := []string{"/"}
		for i, part := range parts {
			var below []string
			for _, dir := range level {
				matches, _ := filepath.Glob(filepath.Join(dir, part))
				if i == len(parts)-1 || len(matches) == 0 || hasPattern(part) {
					to[dir] = true
				}
				below = append(below, matches...)
			}
			level = below
		}
		for _, path := range level { // links to devices elsewhere
			if target, err := filepath.EvalSymlinks(path); err == nil {
				to[filepath.Dir(target)] = true
			}
		}
	}
}

// hasPattern reports whether a part of a path is a pattern.
func hasPattern(part string) bool { return strings.ContainsAny(part, `*?[\`) }

// localDirectories returns the directories of all local devices, sorted.
func (m *Manager) localDirectories() []string {
	all := map[string]bool{}
	for _, l := range m.options.Local {
		l.directories(all)
	}
	return slices.Sorted(maps.Keys(all))
}

// watchLocal keeps the list of local devices up to date until ctx ends. Without paths of devices
// there is nothing to watch.
func (m *Manager) watchLocal(ctx context.Context) {
	if len(m.localDirectories()) == 0 {
		return
	}
	const failed = "Failed to watch for local devices; one that is plugged in is found when podstead is restarted"
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		m.log.Warn(failed, "err", fmt.Errorf("inotify_init1: %w; raise fs.inotify.max_user_instances", err))
		return
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer context.AfterFunc(ctx, func() { _ = events.Close() })()
	defer events.Close()
	watches, buffer := hotPlugWatches{}, make([]byte, 4<<10)
	for {
		dirs := m.localDirectories()
		if err := watches.set(events, dirs); err != nil {
			m.log.Warn(failed, "err", err)
		}
		m.updateLocal()
		if !slices.Equal(dirs, m.localDirectories()) {
			continue // a directory appeared before it was watched
		}
		if _, err := events.Read(buffer); err != nil {
			if ctx.Err() == nil {
				m.log.Warn(failed, "err", err)
			}
			return
		}
	}
}

// hotPlugWatches are the watched directories by their watch descriptors.
type hotPlugWatches map[int]bool

// set watches these directories and no others.
func (w hotPlugWatches) set(events *os.File, dirs []string) (err error) {
	raw, err := events.SyscallConn()
	if err != nil {
		return err
	}
	var fault error
	err = raw.Control(func(fd uintptr) {
		desired := map[int]bool{}
		for _, dir := range dirs {
			// The one that was watched before is the same watch; a new directory at its path another.
			wd, err := unix.InotifyAddWatch(int(fd), dir, hotPlugEvents)
			switch err {
			case nil:
				desired[wd] = true
			case unix.ENOENT, unix.ENOTDIR:
			case unix.ENOSPC:
				fault = fmt.Errorf("inotify_add_watch %s: %w; raise fs.inotify.max_user_watches", dir, err)
			default:
				fault = fmt.Errorf("inotify_add_watch %s: %w", dir, err)
			}
		}
		for wd := range w {
			if !desired[wd] {
				_, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) // it may be gone with its directory
			}
		}
		clear(w)
		maps.Copy(w, desired)
	})
	if fault != nil {
		return fault
	}
	return err
}
