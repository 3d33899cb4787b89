package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// IsManifestFile reports whether a name in a manifest directory is that of a
// manifest (.yaml, .yml or .json), as opposed to hidden files, editor backups
// and other files.
func IsManifestFile(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// isEditorFile reports whether a name is that of an editor's backup, which is
// ignored without a log message.
func isEditorFile(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasSuffix(name, ".bak") ||
		strings.HasSuffix(name, ".swp") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// IsIgnored reports whether an entry of a manifest directory is not read, and may have been
// meant to be: hidden files, signatures and the backups that editors make by themselves are not.
func IsIgnored(entry fs.DirEntry) bool {
	name := entry.Name()
	return (!isEditorFile(name) || strings.HasSuffix(name, ".bak") && name[0] != '.') && !isSignatureFile(name) &&
		(entry.IsDir() || !IsManifestFile(name))
}

// maxIgnored is how many entries that are not read a message names.
const maxIgnored = 5

// DescribeIgnored names entries of a directory that are not read.
func DescribeIgnored(names []string) string {
	list := strings.Join(names[:min(len(names), maxIgnored)], ", ")
	if more := len(names) - maxIgnored; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	if len(names) == 1 {
		return "1 entry is not read: " + list
	}
	return fmt.Sprintf("%d entries are not read: %s", len(names), list)
}

// directoryListing lists what is to be read.
type directoryListing struct {
	// manifests are the paths of the units.
	manifests []string
	// directory is where they are: for a single file, its parent directory.
	directory directoryIdentity
	// ignored are the names of other entries, see IsIgnored.
	ignored []string
	// warning is a problem that does not prevent reading.
	warning *Fault
}

// update brings the units to the state on disk and reports whether the set
// changed.
func (s *FileSource) update(now time.Time) bool {
	listing, fault := s.list()
	if fault == nil {
		fault = s.checkDirectory(listing)
	}
	if fault != nil {
		return s.keepUnits(*fault)
	}
	changed := !slices.Equal(s.state.ignored, listing.ignored)
	s.state.ignored = listing.ignored
	present := make(map[string]bool, len(listing.manifests))
	units := make([]*fileUnit, len(listing.manifests))
	for i, path := range listing.manifests {
		if units[i] = s.units[path]; units[i] == nil {
			units[i] = &fileUnit{path: path}
		}
	}
	s.inspectAll(units, now, func(unit *fileUnit, found inspection, ok bool) bool {
		there, unitChanged := s.checkFile(unit, found, ok, now)
		if there {
			s.units[unit.path] = unit
			unit.seen, present[unit.path] = true, true
		}
		changed = changed || unitChanged
		return true
	})
	for path, unit := range s.units {
		if !present[path] {
			changed = s.markMissing(unit, now) || changed
		}
	}
	if listing.warning == nil {
		listing.warning = s.accessWarning()
	}
	changed = changed || !equalFaults(s.state.fault, listing.warning)
	s.state.fault = listing.warning
	return changed
}

// markMissing handles a unit that was not found. It reports whether the set
// changed.
func (s *FileSource) markMissing(unit *fileUnit, now time.Time) bool {
	if unit.missingSince.IsZero() {
		unit.missingSince = now
	}
	// Removing a unit without content affects nothing.
	confirmed := now.Sub(unit.missingSince) >= confirmDelay
	if confirmed {
		s.state.removed = append(s.state.removed, unit.path)
	}
	if unit.offered.isEmpty() || confirmed {
		delete(s.units, unit.path)
		s.reader.forget(unit.path)
		return unit.known
	}
	s.due.confirm = earlier(s.due.confirm, unit.missingSince.Add(confirmDelay))
	// A file that reappears must be read completely.
	unit.stat, unit.digest = fileStat{}, ""
	changed := !unit.offered.Missing
	unit.offered.Missing = true
	return changed
}

// keepUnits handles a directory that cannot be read: its units no longer count
// as missing.
func (s *FileSource) keepUnits(fault Fault) bool {
	for _, unit := range s.units {
		unit.missingSince = time.Time{}
	}
	changed := !equalFaults(s.state.fault, &fault)
	s.state.fault = &fault
	return changed
}

func equalFaults(a, b *Fault) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// list finds the manifests. It returns a fault if it could not.
func (s *FileSource) list() (directoryListing, *Fault) {
	info, err := os.Stat(s.path)
	switch {
	case err == nil && info.IsDir():
		s.state.isFile = false
		return s.listDirectory()
	case err == nil && s.holdsDirectory():
		return directoryListing{}, &Fault{
			Unit: s.path, Problem: "was a directory of manifests and is now " + fileKind(info.Mode()),
			Remedy: "restore the directory; its pods keep running. To run a single manifest, put it under another path and " +
				"change --pod-manifest-path",
		}
	case err == nil:
		s.state.isFile = true
		return s.listFile(true)
	case s.state.isFile && errors.Is(err, fs.ErrNotExist):
		_, err := os.Lstat(s.path)
		return s.listFile(err == nil) // a link to nowhere is there
	}
	return directoryListing{}, s.directoryFault(err)
}

// holdsDirectory reports whether there are pods or objects of files below the path,
// which therefore is to be a directory.
func (s *FileSource) holdsDirectory() bool {
	for _, unit := range s.units {
		if filepath.Dir(unit.path) == s.path && !unit.offered.isEmpty() {
			return true
		}
	}
	return false
}

// fileKind names what is not a directory.
func fileKind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

func (s *FileSource) directoryFault(err error) *Fault {
	fault := Fault{Unit: s.path, Problem: "cannot be read: " + reason(err),
		Remedy: "make it readable for podstead; its pods keep running"}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.state.disappeared = true
		fault.Problem, fault.Remedy = "does not exist", "create it and put manifests into it; its pods keep running"
	case errors.Is(err, syscall.ENOTDIR):
		fault.Remedy = "its parent must be a directory; its pods keep running"
	}
	return &fault
}

func (s *FileSource) listDirectory() (directoryListing, *Fault) {
	entries, err := s.readDir(s.path)
	if err != nil {
		return directoryListing{}, s.directoryFault(err)
	}
	listing := directoryListing{}
	if listing.directory, err = identifyDirectory(s.path); err != nil {
		return directoryListing{}, s.directoryFault(err)
	}
	for _, entry := range entries {
		if IsManifestFile(entry.Name()) {
			listing.manifests = append(listing.manifests, filepath.Join(s.path, entry.Name()))
		}
		if IsIgnored(entry) {
			listing.ignored = append(listing.ignored, entry.Name())
		}
	}
	s.logIgnored(entries)
	return listing, nil
}

// logIgnored logs once each entry of the directory that is not read.
func (s *FileSource) logIgnored(entries []fs.DirEntry) {
	var mentioned map[string]bool
	for _, entry := range entries {
		name := entry.Name()
		if IsManifestFile(name) || isEditorFile(name) || isSignatureFile(name) {
			continue
		}
		if mentioned == nil {
			mentioned = map[string]bool{}
		}
		mentioned[name] = true
		switch path := filepath.Join(s.path, name); {
		case s.state.loggedIgnored[name]:
		case entry.IsDir():
			s.log.Info("Ignoring subdirectory of the manifest directory", "path", path)
		default:
			s.log.Info("Ignoring file in the manifest directory: its name must end in .yaml, .yml or .json", "path", path)
		}
	}
	s.state.loggedIgnored = mentioned
}

// listFile handles a path that is, or was, that of a file.
func (s *FileSource) listFile(there bool) (directoryListing, *Fault) {
	directory, err := identifyDirectory(filepath.Dir(s.path))
	if err != nil {
		return directoryListing{}, s.directoryFault(err)
	}
	listing := directoryListing{directory: directory}
	if there {
		listing.manifests = []string{s.path}
	} else {
		listing.warning = &Fault{Unit: s.path, Problem: "does not exist", Remedy: "create it to run its pods", Warning: true}
	}
	return listing, nil
}

// checkDirectory decides whether the listing of the directory can be trusted. In the
// directory that was read before, a file that is gone was removed by the user. Another
// directory in its place, such as a mount point without its file system, reports that only
// with at least one valid manifest.
func (s *FileSource) checkDirectory(listing directoryListing) *Fault {
	holdsAny := slices.ContainsFunc(slices.Collect(maps.Values(s.units)),
		func(u *fileUnit) bool { return !u.offered.isEmpty() })
	if holdsAny && !s.isSameDirectory(listing.directory) && !s.anyValid(listing.manifests) {
		fault := &Fault{
			Unit:    s.path,
			Problem: "was replaced by a directory without manifests (is a file system not mounted?)",
			Remedy: "restore the manifests; their pods keep running. " +
				"To stop the pods, add a file with an empty list: {apiVersion: v1, kind: PodList, items: []}",
		}
		if len(listing.manifests) > 0 {
			fault.Problem = "was replaced by a directory without a valid manifest"
			if len(listing.manifests) == 1 && listing.manifests[0] == s.path {
				fault.Problem = "was replaced together with its directory, and is not valid"
			}
		}
		return fault
	}
	s.state.directory, s.state.restored, s.state.disappeared = listing.directory, false, false
	s.state.candidates = nil
	s.opts.Checkpoint.setDirectory(SourceFile, listing.directory)
	return nil
}

// anyValid reports whether one of the files can be read and has no error.
func (s *FileSource) anyValid(paths []string) (valid bool) {
	candidates := make([]*fileUnit, len(paths))
	for i, path := range paths {
		if s.state.candidates == nil {
			s.state.candidates = map[string]*fileUnit{}
		}
		if s.state.candidates[path] == nil {
			s.state.candidates[path] = &fileUnit{path: path}
		}
		candidates[i] = s.state.candidates[path]
	}
	s.inspectAll(candidates, time.Now(), func(unit *fileUnit, found inspection, ok bool) bool {
		if ok && found.wasRead && found.readErr == nil && !found.content.torn {
			read, _ := s.reader.readSigned(unit.path, found.content.data, found.signature)
			valid = !read.Faults.Fatal()
		}
		return !valid
	})
	return valid
}

func (s *FileSource) isSameDirectory(directory directoryIdentity) bool {
	if s.state.disappeared {
		return false
	}
	before := s.state.directory
	if before == (directoryIdentity{}) {
		return true // nothing is known of it
	}
	if s.state.restored {
		// The device number can change at a reboot.
		before.Device = directory.Device
	}
	return before == directory
}

// identifyDirectory returns the identity of the directory at path; links are
// followed.
func identifyDirectory(path string) (directoryIdentity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return directoryIdentity{}, err
	}
	if !info.IsDir() {
		return directoryIdentity{}, syscall.ENOTDIR
	}
	identity := directoryIdentity{}
	identity.Device, identity.Inode = deviceAndInode(info)
	identity.Born = birthTime(path)
	// The path is not cleaned, since it must be the parent of the target of the
	// links.
	if parent, err := os.Stat(path + "/.."); err == nil {
		device, _ := deviceAndInode(parent)
		identity.Mounted = device != identity.Device
	}
	return identity, nil
}

// birthTime returns the creation time of the directory at path, in nanoseconds
// since 1970; zero if it is not available.
func birthTime(path string) int64 {
	var stat unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BTIME, &stat) != nil || stat.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return stat.Btime.Sec*int64(time.Second) + int64(stat.Btime.Nsec)
}

// deviceAndInode returns the device and inode numbers of stat(2).
func deviceAndInode(info fs.FileInfo) (device, inode uint64) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev), stat.Ino
	}
	return 0, 0
}

// reason returns an error without the path, which the fault already contains.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}
