package fsgroup

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/fdpath"
	"github.com/podstead/podstead/internal/treewalk"
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

// The kinds of access.
const (
	ReadWrite Access = modeFile
	ReadOnly  Access = modeFileRead
)

// Apply gives a directory tree to the group, directories after their content: the root is right only when everything
// is, which RootMatch relies on. It follows no link and crosses no mount point, since containers may be changing the
// tree. A tree that is deeper than treewalk.MaxDepth is an error: a container without any rights can make it as deep as
// the disk allows.
func (g Group) Apply(ctx context.Context, path string, files Access) error {
	if g.GID == nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if g.RootMatch && g.matches(&st, files) {
		return nil
	}
	file := func(dir int, name string, _ *unix.Statx_t) error {
		fd, err := fdpath.Open(dir, name)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return g.change(fd, files)
	}
	var err error
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = file(unix.AT_FDCWD, path, nil)
	} else {
		err = treewalk.Walk(ctx, path,
			&treewalk.Visitor{File: file, Dir: func(fd int, _ *unix.Statx_t) error { return g.change(fd, files) }})
	}
	if err != nil {
		return fmt.Errorf("failed to change the group of the volume to %d: %w", *g.GID, err)
	}
	return nil
}

// matches reports whether a directory is as change would leave it.
func (g Group) matches(st *unix.Stat_t, files Access) bool {
	want := desiredMode(st.Mode, files)
	return int64(st.Gid) == *g.GID && st.Mode&want == want
}

// FileMode returns the mode of a file in a read-only volume of the group.
func (g Group) FileMode(mode uint32) uint32 {
	if g.GID == nil {
		return mode
	}
	return mode | modeFileRead
}

// desiredMode returns the permission bits to add to a file of the given mode.
func desiredMode(mode uint32, files Access) uint32 {
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return uint32(files) | unix.S_ISGID | modeDir
	}
	return uint32(files)
}

// change changes the group and the mode of the file of a descriptor.
func (g Group) change(fd int, files Access) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := unix.Fchownat(fd, "", -1, int(*g.GID), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	// chown clears the set-group-ID bit, so the mode is always set.
	return fdpath.Chmod(fd, st.Mode&0o7777|desiredMode(st.Mode, files))
}
