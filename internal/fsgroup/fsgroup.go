package fsgroup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/fdpath"
)

// Permission bits that a pod's group gets; they are the kubelet's: on files, on files
// of read-only volumes, and on directories.
const (
	modeFile     = 0o660
	modeFileRead = 0o440
	modeDir      = 0o110
)

// Group is the group that owns a pod's volumes; none if GID is nil.
type Group struct {
	// GID is the number of the group.
	GID *int64
	// RootMatch: a volume whose root already belongs to the group is not changed
	// (fsGroupChangePolicy OnRootMismatch).
	RootMatch bool
}

// Access is the access of the group's members to files.
type Access uint32

const (
	ReadWrite Access = modeFile
	ReadOnly  Access = modeFileRead
)

// Apply gives a directory tree to the group. It follows no link and crosses no mount
// point, since containers may be changing the tree.
func (g Group) Apply(path string, files Access) error {
	if g.GID == nil {
		return nil
	}
	fd, err := fdpath.Retry(func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) })
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if g.RootMatch && g.matches(&st, files) {
		return nil
	}
	mount, err := fdpath.Mount(fd)
	if err != nil {
		return err
	}
	if err := g.chownTree(fd, path, mount, files); err != nil {
		return fmt.Errorf("failed to change the group of the volume to %d: %w", *g.GID, err)
	}
	return nil
}

// matches reports whether a directory is as chownTree would leave it.
func (g Group) matches(st *unix.Stat_t, files Access) bool {
	want := wantedMode(st.Mode, files)
	return int64(st.Gid) == *g.GID && st.Mode&want == want
}

// FileMode returns the mode of a file in a read-only volume of the group.
func (g Group) FileMode(mode uint32) uint32 {
	if g.GID == nil {
		return mode
	}
	return mode | modeFileRead
}

// wantedMode returns the permission bits to add to a file of the given mode.
func wantedMode(mode uint32, files Access) uint32 {
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return uint32(files) | unix.S_ISGID | modeDir
	}
	return uint32(files)
}

// chownTree changes the file of an O_PATH descriptor, directories after their content:
// the root is right only when everything is, which RootMatch relies on.
func (g Group) chownTree(fd int, path string, mount int, files Access) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFDIR {
		id, err := fdpath.Mount(fd)
		if err != nil || id != mount {
			return err
		}
		if err := g.chownEntries(fd, path, mount, files); err != nil {
			return err
		}
	}
	if err := unix.Fchownat(fd, "", -1, int(*g.GID), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "chown", Path: path, Err: err}
	}
	if kind == unix.S_IFLNK {
		return nil
	}
	// chown clears the set-group-ID bit, so the mode is always set.
	mode := st.Mode&0o7777 | wantedMode(st.Mode, files)
	if err := fdpath.Chmod(fd, mode); err != nil {
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}

// chownEntries applies chownTree to the entries of a directory.
func (g Group) chownEntries(fd int, path string, mount int, files Access) error {
	open, err := fdpath.Retry(func() (int, error) {
		return unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(open), path)
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			at := filepath.Join(path, name)
			entry, err := fdpath.Open(fd, name)
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return &os.PathError{Op: "open", Path: at, Err: err}
			}
			err = g.chownTree(entry, at, mount, files)
			_ = unix.Close(entry)
			if err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
