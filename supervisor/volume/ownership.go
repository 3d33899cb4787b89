package volume

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// Permission bits that a pod's group gets, the kubelet's: on files, on files
// of volumes that are read-only, and on folders.
const (
	groupFile     = 0o660
	groupFileRead = 0o440
	groupDir      = 0o110
)

// owner is the group that a pod's volumes belong to; none if gid is nil.
type owner struct {
	gid *int64
	// rootMatch: a volume whose top belongs to the group already is left as it
	// is (fsGroupChangePolicy OnRootMismatch).
	rootMatch bool
}

// ownerOf reads the pod's fsGroup.
func ownerOf(pod *v1.Pod) owner {
	s := pod.Spec.SecurityContext
	if s == nil || s.FSGroup == nil {
		return owner{}
	}
	return owner{gid: s.FSGroup, rootMatch: s.FSGroupChangePolicy != nil && *s.FSGroupChangePolicy == v1.FSGroupChangeOnRootMismatch}
}

// ownMode says what the members of the group may do with the files.
type ownMode uint32

const (
	ownAll  ownMode = groupFile
	ownRead ownMode = groupFileRead
)

// apply gives a folder with all below it to the group. It follows no link and
// goes into no other mount, since containers may be at work in it.
func (o owner) apply(path string, files ownMode) error {
	if o.gid == nil {
		return nil
	}
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) })
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if o.rootMatch && o.matches(&st, files) {
		return nil
	}
	mount, err := mountID(fd)
	if err != nil {
		return err
	}
	if err := o.give(fd, path, mount, files); err != nil {
		return fmt.Errorf("cannot give the volume to group %d: %w", *o.gid, err)
	}
	return nil
}

// matches reports whether a folder is as give would make it.
func (o owner) matches(st *unix.Stat_t, files ownMode) bool {
	want := wantedMode(st.Mode, files)
	return int64(st.Gid) == *o.gid && st.Mode&want == want
}

// fileMode is the mode of a file in a read-only volume once it is the group's.
func (o owner) fileMode(mode uint32) uint32 {
	if o.gid == nil {
		return mode
	}
	return mode | groupFileRead
}

// wantedMode are the bits to add to a file of the given mode.
func wantedMode(mode uint32, files ownMode) uint32 {
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return uint32(files) | unix.S_ISGID | groupDir
	}
	return uint32(files)
}

// give changes what an O_PATH descriptor holds, folders after what is in them:
// the top is right only when all is, and so may be judged by.
func (o owner) give(fd int, path string, mount int, files ownMode) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFDIR {
		id, err := mountID(fd)
		if err != nil || id != mount {
			return err
		}
		if err := o.giveBelow(fd, path, mount, files); err != nil {
			return err
		}
	}
	if err := unix.Fchownat(fd, "", -1, int(*o.gid), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "chown", Path: path, Err: err}
	}
	if kind == unix.S_IFLNK {
		return nil
	}
	// chown has taken a set-group-ID bit, so that the mode is always set.
	mode := st.Mode&0o7777 | wantedMode(st.Mode, files)
	if err := chmodFd(fd, mode); err != nil {
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}

func (o owner) giveBelow(fd int, path string, mount int, files ownMode) error {
	open, err := retry(func() (int, error) {
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
			entry, err := openPath(fd, name)
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return &os.PathError{Op: "open", Path: at, Err: err}
			}
			err = o.give(entry, at, mount, files)
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
