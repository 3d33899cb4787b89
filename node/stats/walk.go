package stats

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// walkDepth limits the depth of directories: each holds a file descriptor.
	walkDepth = 256
	// walkBatch is how many entries are read at once, and between two checks of the
	// time.
	walkBatch = 512
)

// mountID identifies the file system and the mount that a path is on.
type mountID struct {
	major, minor uint32
	mount        uint64
}

// directoryUsage is the content of a directory.
type directoryUsage struct {
	bytes, inodes uint64
	// incomplete reports that the time was over, or that the tree is too deep.
	incomplete bool
}

type walker struct {
	directoryUsage
	on mountID
	// linked are the counted files with more than one name.
	linked map[uint64]bool
}

// walk sums up the disk usage of a directory, as du does: in blocks, and a file
// with several names once. It follows no symbolic link and crosses no mount, and
// opens each directory relative to its parent, so that a concurrent rename cannot
// lead it elsewhere. A missing directory is an error.
func walk(ctx context.Context, path string) (directoryUsage, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return directoryUsage{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Statx_t
	if err := statx(fd, "", unix.AT_EMPTY_PATH, &st); err != nil {
		_ = unix.Close(fd)
		return directoryUsage{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	w := &walker{on: mountOf(&st), linked: map[uint64]bool{}}
	w.bytes, w.inodes = st.Blocks*512, 1
	w.directory(ctx, os.NewFile(uintptr(fd), path), 1)
	return w.directoryUsage, nil
}

// directory sums up one directory and those below it, and closes it.
func (w *walker) directory(ctx context.Context, dir *os.File, depth int) {
	defer dir.Close()
	for {
		if ctx.Err() != nil {
			w.incomplete = true
			return
		}
		names, err := dir.Readdirnames(walkBatch)
		for _, name := range names {
			w.entry(ctx, dir, name, depth)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				w.incomplete = true
			}
			return
		}
	}
}

func (w *walker) entry(ctx context.Context, dir *os.File, name string, depth int) {
	var st unix.Statx_t
	fd := int(dir.Fd())
	if err := statx(fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, &st); err != nil || mountOf(&st) != w.on {
		return // it was just removed, or is on another mount
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if st.Nlink > 1 {
			if w.linked[st.Ino] {
				return
			}
			w.linked[st.Ino] = true
		}
		w.bytes, w.inodes = w.bytes+st.Blocks*512, w.inodes+1
		return
	}
	w.bytes, w.inodes = w.bytes+st.Blocks*512, w.inodes+1
	if depth >= walkDepth || ctx.Err() != nil {
		w.incomplete = true
		return
	}
	below, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NOATIME|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EPERM) {
		below, err = unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return // it was just removed
	}
	w.directory(ctx, os.NewFile(uintptr(below), name), depth+1)
}

// statx requests the fields that a walk needs, without disk access on network file
// systems.
func statx(fd int, name string, flags int, st *unix.Statx_t) error {
	const mask = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS | unix.STATX_MNT_ID
	return unix.Statx(fd, name, flags|unix.AT_STATX_DONT_SYNC, mask, st)
}

// mountOf distinguishes mounts of one device where the kernel does (Linux 5.8).
func mountOf(st *unix.Statx_t) mountID {
	id := mountID{major: st.Dev_major, minor: st.Dev_minor}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		id.mount = st.Mnt_id
	}
	return id
}

// mountIDOf returns the file system and the mount that a path is on.
func mountIDOf(path string) (mountID, error) {
	var st unix.Statx_t
	if err := statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, &st); err != nil {
		return mountID{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return mountOf(&st), nil
}
