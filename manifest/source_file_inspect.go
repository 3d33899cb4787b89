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
	// slowAfter is how long the scan waits for a file before it goes on with the next
	// one, less for each file that it waits for already.
	slowAfter = 100 * time.Millisecond
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
	// signature is that of the content, if it must have one.
	signature detached
}

// inspectFile inspects a file, and reads it if read asks for it.
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

// access is the inspection of a unit's file in progress.
type access struct {
	unit  *fileUnit
	done  chan inspection
	begun time.Time
}

// inspectAll inspects the files of units and passes what it finds to use, false for a
// file that blocks, until use returns false. A file that does not respond at once comes
// last, so that several that block do so at the same time.
func (s *FileSource) inspectAll(units []*fileUnit, now time.Time,
	use func(unit *fileUnit, found inspection, ok bool) bool) {
	var slow []*access
	next := func(a *access, wait time.Duration) (goOn, waits bool) {
		defer s.advance()
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case found := <-a.done:
			s.advance()
			ok := !errors.Is(found.readErr, os.ErrDeadlineExceeded)
			if a.unit.blockedUntil = (time.Time{}); !ok {
				a.unit.blockedUntil = time.Now().Add(s.opts.Rescan)
			}
			return use(a.unit, found, ok), false
		case <-timer.C:
			return true, true
		}
	}
	defer func() {
		for _, a := range slow {
			a.unit.inspecting = a.done
		}
	}()
	for _, unit := range units {
		a := s.inspect(unit, now)
		goOn, waits := true, false
		if a == nil {
			goOn = use(unit, inspection{}, false)
		} else {
			goOn, waits = next(a, slowAfter/time.Duration(1+len(slow)))
		}
		if waits {
			slow = append(slow, a)
		}
		if !goOn {
			return
		}
	}
	for len(slow) > 0 {
		a := slow[0]
		goOn, waits := next(a, time.Until(a.begun.Add(readTimeout+blockedSlack)))
		slow = slow[1:]
		if waits {
			a.unit.inspecting, a.unit.blockedUntil = a.done, time.Now().Add(s.opts.Rescan)
			goOn = use(a.unit, inspection{}, false)
		}
		if !goOn {
			return
		}
	}
}

// inspect begins to inspect the file of a unit; nil if it is known to block. A file that
// blocks is inspected again when the access has ended, but not more often than the
// directory is scanned.
func (s *FileSource) inspect(unit *fileUnit, now time.Time) *access {
	if unit.inspecting != nil {
		select {
		case <-unit.inspecting: // it is too old to be used
			unit.inspecting = nil
		default:
			return nil
		}
	}
	if now.Before(unit.blockedUntil) && !unit.dirty {
		return nil
	}
	unchanged, mustRead := unit.stat, !unit.known || unit.dirty || !unit.busySince.IsZero()
	a := &access{unit: unit, done: make(chan inspection, 1), begun: time.Now()}
	path, signed := unit.path, s.reader.keys != nil
	go func() {
		found := s.inspectFile(path, func(info fs.FileInfo) bool { return mustRead || unchanged != statOf(info) })
		if signed && found.wasRead && found.readErr == nil {
			found.signature = readSignature(path)
		}
		a.done <- found
		if time.Since(a.begun) > readTimeout {
			s.unblocked.Notify()
		}
	}()
	return a
}

func blockedFault(path string) Fault {
	return Fault{
		Unit: path, Problem: fmt.Sprintf("cannot be read: it blocks for more than %v", readTimeout),
		Remedy: "check the file, and the server if it is on a network file system; its pods keep running",
	}
}
