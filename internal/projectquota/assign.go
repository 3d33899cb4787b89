package projectquota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// maxAssigned limits how many files of a directory get a project ID: more would delay
	// the pod too long.
	maxAssigned = 100_000
	maxDepth    = 256
)

// ErrTooLarge is the error of Assign for a directory with too many files.
var ErrTooLarge = fmt.Errorf("the directory has more than %d files, or is deeper than %d", maxAssigned, maxDepth)

// Assign gives a directory and what it contains a project ID, which new files in it get from then on.
// The directory itself gets it last, so that it has the ID only if all of it has. It follows no link and
// crosses no mount. Links, sockets and devices, which take no space, keep their ID.
func (k *Kernel) Assign(ctx context.Context, dir string, id uint32) error {
	defer k.assigned(id)
	fd, err := open(dir)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return err
	}
	a := assigner{id: id, device: uint64(st.Dev)}
	return a.directory(ctx, os.NewFile(uintptr(fd), dir), 1)
}

type assigner struct {
	id     uint32
	device uint64
	files  int
}

// directory assigns what a directory contains and then the directory, and closes it.
func (a *assigner) directory(ctx context.Context, dir *os.File, depth int) error {
	defer dir.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if err := a.entry(ctx, dir, name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return a.set(int(dir.Fd()), dir.Name(), true)
		}
		if err != nil {
			return err
		}
	}
}

func (a *assigner) entry(ctx context.Context, dir *os.File, name string, depth int) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	isDirectory := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if errors.Is(err, unix.ENOENT) || err == nil && (!isDirectory && st.Mode&unix.S_IFMT != unix.S_IFREG || uint64(st.Dev) != a.device) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "stat", Path: dir.Name() + "/" + name, Err: err}
	}
	if a.files++; a.files > maxAssigned || depth > maxDepth {
		return ErrTooLarge
	}
	fd, err := openEntry(int(dir.Fd()), name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: dir.Name() + "/" + name, Err: err}
	}
	f := os.NewFile(uintptr(fd), dir.Name()+"/"+name)
	if isDirectory {
		return a.directory(ctx, f, depth+1)
	}
	defer f.Close()
	return a.set(fd, f.Name(), false)
}

// openEntry opens an entry of a directory; EXDEV is a mount. Before Linux 5.6 only a mount of another file system
// is one.
func openEntry(dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return unix.Openat(dir, name, flags, 0)
	}
	return fd, err
}

// set gives one file the ID.
func (a *assigner) set(fd int, path string, inherit bool) error {
	var attributes attributes
	err := ioctl(fd, getAttributes, &attributes)
	if err == nil {
		attributes.project = a.id
		if inherit {
			attributes.flags |= flagInherit
		}
		err = ioctl(fd, setAttributes, &attributes)
	}
	if err != nil {
		return &os.PathError{Op: "set the project ID of", Path: path, Err: err}
	}
	return nil
}
