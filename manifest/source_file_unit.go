package manifest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/fileaccess"
)

// fileUnit is one manifest file. It has one field for each fact that the next scan needs of it.
type fileUnit struct {
	path string
	// offered is the unit as it is in the set; known reports that there is one.
	offered Unit
	known   bool
	// stat and digest are those of the bytes that offered is made from; zero if
	// it is not made from bytes.
	stat fileStat
	// writers reports why users other than root may change the file; empty if they
	// may not.
	writers string
	digest  string
	// dirty reports that the file may have changed, whatever its times are.
	dirty bool
	// isLink reports that the file is a symbolic link.
	isLink bool
	// links is where the target of the link is looked up.
	links watchPlan
	// inspecting receives the result of an access to the file that blocks; nil if none
	// does. Until blockedUntil, a file that blocked is not inspected again.
	inspecting   chan inspection
	blockedUntil time.Time
	// missingSince is when the file was first not found; zero if it exists.
	missingSince time.Time
	// seen reports that a scan of this run of the daemon found the file.
	seen bool
	// busySince is when a process was first seen to write busyStat.
	busySince time.Time
	busyStat  fileStat
	// unsignedSince is when the file was first found without a valid signature; zero if it
	// has one, or needs none.
	unsignedSince time.Time
}

// fileStat changes with each change of the content of a file.
type fileStat struct {
	device, inode    uint64
	size             int64
	modified, change syscall.Timespec
}

func statOf(info fs.FileInfo) fileStat {
	stat := fileStat{size: info.Size()}
	stat.device, stat.inode = deviceAndInode(info)
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		stat.modified, stat.change = sys.Mtim, sys.Ctim
	}
	return stat
}

// checkFile brings a unit to the content of its file, which blocks if ok is false. It
// reports whether the file exists and whether the unit changed. A file that has not
// changed was not read.
func (s *FileSource) checkFile(unit *fileUnit, found inspection, ok bool, now time.Time) (there, changed bool) {
	if !ok {
		unit.missingSince = time.Time{}
		return true, s.offerFault(unit, blockedFault(unit.path))
	}
	if !found.isLink && errors.Is(found.err, fs.ErrNotExist) {
		return false, false
	}
	unit.missingSince = time.Time{}
	unit.isLink, unit.links = found.isLink, found.links
	if unit.writers = ""; found.err == nil {
		unit.writers = fileaccess.Writers(found.info)
	}
	if found.err != nil {
		return true, s.offerFault(unit, unreadableFault(unit.path, found.err))
	}
	if fault := checkFileType(unit.path, found.info); fault != nil {
		return true, s.offerFault(unit, *fault)
	}
	if !found.wasRead {
		return true, false
	}
	return true, s.loadUnit(unit, &found, now)
}

// checkFileType returns the fault of something that cannot be a manifest, nil
// if it can.
func checkFileType(path string, info fs.FileInfo) *Fault {
	fault := Fault{Unit: path, Remedy: "must be a file"}
	switch mode := info.Mode(); {
	case mode.IsRegular() && info.Size() > MaxUnitSize:
		fault = tooLargeFault(path)
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		fault.Problem = "is a directory, and subdirectories of the manifest directory are not read"
	default:
		fault.Problem = "is " + fileKind(mode)
	}
	return &fault
}

func unreadableFault(path string, err error) Fault {
	fault := Fault{Unit: path, Problem: "cannot be read: " + reason(err), Remedy: "make it readable for podstead"}
	if target, noLink := os.Readlink(path); errors.Is(err, fs.ErrNotExist) && noLink == nil {
		fault.Problem = "is a link to " + target + ", which does not exist"
		fault.Remedy = "must lead to a file; to stop its pods, remove the link"
	}
	return fault
}

// loadUnit loads the content of the file, unless a process is still writing it.
func (s *FileSource) loadUnit(unit *fileUnit, found *inspection, now time.Time) bool {
	content, err := found.content, found.readErr
	var fault Fault
	switch {
	case errors.As(err, &fault):
		return s.offerFault(unit, fault)
	case err != nil:
		return s.offerFault(unit, unreadableFault(unit.path, err))
	case s.isBusy(unit, content, now):
		s.due.busy = now.Add(busyDelay)
		return s.markPresent(unit)
	}
	unit.dirty, unit.busySince = false, time.Time{}
	unit.stat = content.stat
	digest := Digest(content.data)
	if digest == unit.digest && unit.known && s.reader.keys == nil {
		return s.markPresent(unit)
	}
	offered, unsigned := s.reader.readSigned(unit.path, content.data, found.signature)
	unit.dirty = unsigned
	switch {
	case !unsigned:
		unit.unsignedSince = time.Time{}
	case s.awaitSignature(unit, now):
		return s.markPresent(unit)
	}
	unit.digest = digest
	return s.offer(unit, offered)
}

// awaitSignature reports whether to wait a moment for the signature of a file: it is
// replaced right before or after the file. A file without a valid signature is read again
// with each scan.
func (s *FileSource) awaitSignature(unit *fileUnit, now time.Time) bool {
	if unit.unsignedSince.IsZero() {
		unit.unsignedSince = now
	}
	wait := unit.unsignedSince.Add(busyTimeout)
	if !now.Before(wait) {
		return false
	}
	s.due.busy = earlier(s.due.busy, wait)
	return true
}

// isBusy reports whether the file should be read later. It does not wait
// indefinitely for a process that keeps the file open without writing.
func (s *FileSource) isBusy(unit *fileUnit, content fileContent, now time.Time) bool {
	if !content.torn && !content.writer {
		return false
	}
	if unit.busySince.IsZero() || unit.busyStat != content.stat {
		unit.busySince, unit.busyStat = now, content.stat
	}
	return content.torn || now.Sub(unit.busySince) < busyTimeout
}

// offer puts a unit into the set and reports whether that changes it.
func (s *FileSource) offer(unit *fileUnit, offered Unit) bool {
	changed := !unit.known || !sameUnit(unit.offered, offered)
	unit.offered, unit.known = offered, true
	return changed
}

// markPresent handles a file that exists and has not changed.
func (s *FileSource) markPresent(unit *fileUnit) bool {
	changed := unit.offered.Missing
	unit.offered.Missing = false
	return changed
}

// offerFault handles a file whose content is not available. Every scan checks
// it again.
func (s *FileSource) offerFault(unit *fileUnit, fault Fault) bool {
	unit.stat, unit.digest, unit.dirty, unit.busySince = fileStat{}, "", false, time.Time{}
	return s.offer(unit, s.reader.lastGood(unit.path, Faults{fault}))
}

// fileContent is the content of a file as it was read.
type fileContent struct {
	data []byte
	stat fileStat
	// writer reports that a process has the file open for writing, torn that it
	// changed while it was read.
	writer, torn bool
}

// readManifest reads a file. Only regular files are read, even if the type of the
// file has just changed; those that support deadlines, as some of the kernel's do,
// get one. The error is a Fault or that of the file system.
func readManifest(path string) (fileContent, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return fileContent{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fileContent{}, err
	}
	if fault := checkFileType(path, info); fault != nil {
		return fileContent{}, *fault
	}
	_ = file.SetReadDeadline(time.Now().Add(readTimeout)) // other files have none
	content := fileContent{stat: statOf(info), writer: fileaccess.HasWriter(file)}
	content.data, err = io.ReadAll(io.LimitReader(file, MaxUnitSize+1))
	if err != nil {
		return fileContent{}, err
	}
	if len(content.data) > MaxUnitSize {
		return fileContent{}, tooLargeFault(path)
	}
	if info, err = file.Stat(); err != nil {
		return fileContent{}, err
	}
	content.torn = statOf(info) != content.stat
	return content, nil
}

// ReadFile reads a manifest as the daemon does: only a regular file, and not one that
// blocks. The fault reports why there is no content.
func ReadFile(path string) ([]byte, *Fault) {
	type result struct {
		content fileContent
		err     error
	}
	done := make(chan result, 1)
	go func() { // any access to a file can block forever
		content, err := readManifest(path)
		done <- result{content, err}
	}()
	timer := time.NewTimer(readTimeout + blockedSlack)
	defer timer.Stop()
	r := result{err: os.ErrDeadlineExceeded}
	select {
	case r = <-done:
	case <-timer.C:
	}
	var fault Fault
	switch {
	case r.err == nil:
		return r.content.data, nil
	case errors.As(r.err, &fault):
	case errors.Is(r.err, os.ErrDeadlineExceeded):
		fault = blockedFault(path)
		fault.Remedy = "check the file, and the server if it is on a network file system"
	default:
		fault = unreadableFault(path, r.err)
	}
	return nil, &fault
}
