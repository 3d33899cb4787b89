package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

const (
	// readTimeout is how long one file may block, for example because its link leads to
	// a file system whose server is gone. The other files are read then.
	readTimeout = 2 * time.Second
	// blockedSlack is how much longer the scan waits, so that a read with a deadline of
	// its own is over.
	blockedSlack = 500 * time.Millisecond
)

// inspection is what is found at the path of a unit. It is made in a goroutine of its
// own, since any access to a file can block forever.
type inspection struct {
	// info is that of the file, with links followed; err is why there is none.
	info fs.FileInfo
	err  error
	// isLink reports a symbolic link, links where its target is looked up.
	isLink bool
	links  watchPlan
	// wasRead reports that the file was read: content, or readErr.
	wasRead bool
	content fileContent
	readErr error
}

// inspectFile inspects a file, and reads it if read says so.
func inspectFile(path string, read func(fs.FileInfo) bool) (found inspection) {
	if found.info, found.err = os.Lstat(path); found.err != nil {
		return found
	}
	if found.isLink = found.info.Mode()&fs.ModeSymlink != 0; found.isLink {
		// Before the target is read, so that a change in between is noticed.
		found.links = watchPlan{}
		found.links.follow(path)
		if found.info, found.err = os.Stat(path); found.err != nil {
			return found
		}
	}
	if checkFileType(path, found.info) == nil && read(found.info) {
		found.wasRead = true
		found.content, found.readErr = readManifest(path)
	}
	return found
}

// inspect inspects the file of a unit; false if that blocks. A file that blocks is
// inspected again when the access has ended, but not more often than the directory is
// scanned.
func (s *FileSource) inspect(unit *fileUnit, now time.Time) (inspection, bool) {
	if unit.inspecting != nil {
		select {
		case <-unit.inspecting: // it is too old to be used
			unit.inspecting = nil
		default:
			return inspection{}, false
		}
	}
	if now.Before(unit.blockedUntil) && !unit.dirty {
		return inspection{}, false
	}
	unchanged, mustRead := unit.stat, !unit.known || unit.dirty || !unit.busySince.IsZero()
	done := make(chan inspection, 1)
	path, start := unit.path, time.Now()
	go func() {
		done <- s.inspectFile(path, func(info fs.FileInfo) bool { return mustRead || unchanged != statOf(info) })
		if time.Since(start) > readTimeout {
			select {
			case s.unblocked <- struct{}{}:
			default:
			}
		}
	}()
	timer := time.NewTimer(readTimeout + blockedSlack)
	defer timer.Stop()
	select {
	case found := <-done:
		if !errors.Is(found.readErr, os.ErrDeadlineExceeded) {
			unit.blockedUntil = time.Time{}
			return found, true
		}
	case <-timer.C:
		unit.inspecting = done
	}
	unit.blockedUntil = time.Now().Add(s.opts.Rescan)
	return inspection{}, false
}

func blockedFault(path string) Fault {
	return Fault{
		Unit: path, Problem: fmt.Sprintf("cannot be read: it blocks for more than %v", readTimeout),
		Remedy: "check the file, and the server if it is on a network file system; its pods keep running",
	}
}
