package treewalk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/fdpath"
)

const (
	// MaxDepth limits the depth of directories: each one holds a descriptor while the walk is in it. No program needs
	// more, and a path of 4096 bytes, which is what most programs can open, has few more.
	MaxDepth = 256
	// batch is how many entries are read at once, and between two checks of the context. With the longest names and
	// at the greatest depth they take 8 MB.
	batch = 128
)

// ErrTooDeep is the error of a tree that is deeper than MaxDepth.
var ErrTooDeep = fmt.Errorf("it has directories more than %d levels deep", MaxDepth)

// ErrTooMany is the error of a tree with more files than the walk may visit.
var ErrTooMany = errors.New("it has too many files")

// Visitor is called for the files of a tree. An error ends the walk.
type Visitor struct {
	// File is called for each entry of a directory that is none itself.
	File func(dir int, name string, st *unix.Statx_t) error
	// Dir is called for each directory, the top one last: after all that is in it. fd is open for reading.
	Dir func(fd int, st *unix.Statx_t) error
	// TooDeep, if it is set, is called instead of failing with ErrTooDeep, for a directory that is not visited.
	TooDeep func()
	// MaxFiles is how many files and directories are visited at most; 0 for any number.
	MaxFiles int
}

// mask are the fields of Statx_t that a Visitor gets, and MNT_ID, where the kernel has it (Linux 5.8).
const mask = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS | unix.STATX_MNT_ID

// Walk visits the tree at path, which must be a directory. Entries that vanish meanwhile are passed over, as are those
// on another mount. The error names the path of the tree: with the names of containers it could be megabytes long.
func Walk(ctx context.Context, path string, v *Visitor) error {
	fd, err := fdpath.Retry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	w := walk{Visitor: v}
	var st unix.Statx_t
	if err = statx(fd, "", unix.AT_EMPTY_PATH, &st); err == nil {
		w.device, w.mount = unix.Mkdev(st.Dev_major, st.Dev_minor), st.Mnt_id
		if st.Mask&unix.STATX_MNT_ID == 0 {
			w.mountOfDirectory, err = fdpath.Mount(fd)
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := w.directory(ctx, os.NewFile(uintptr(fd), path), &st, 1); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

type walk struct {
	*Visitor
	device, mount uint64
	// mountOfDirectory is the ID of the mount on a kernel whose statx does not return it.
	mountOfDirectory int
	files            int
}

// directory visits what is in a directory, and then the directory, and closes it.
func (w *walk) directory(ctx context.Context, dir *os.File, st *unix.Statx_t, depth int) error {
	defer dir.Close()
	fd := int(dir.Fd())
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if err := w.entry(ctx, fd, name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return w.Dir(fd, st)
		}
		if failed := (*os.SyscallError)(nil); errors.As(err, &failed) {
			return failed.Err // without the names of all directories
		}
		if err != nil {
			return err
		}
	}
}

func (w *walk) entry(ctx context.Context, dir int, name string, depth int) error {
	var st unix.Statx_t
	err := statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return named(name, err)
	case unix.Mkdev(st.Dev_major, st.Dev_minor) != w.device || st.Mask&unix.STATX_MNT_ID != 0 && st.Mnt_id != w.mount:
		return nil
	}
	if w.files++; w.MaxFiles > 0 && w.files > w.MaxFiles {
		return ErrTooMany
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return named(name, w.File(dir, name, &st))
	}
	if depth >= MaxDepth {
		if w.TooDeep != nil {
			w.TooDeep()
			return nil
		}
		return ErrTooDeep
	}
	fd, err := open(dir, name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // it was just replaced
	}
	if err != nil {
		return named(name, err)
	}
	if same, err := w.onMount(fd); !same || err != nil {
		_ = unix.Close(fd)
		return err
	}
	return w.directory(ctx, os.NewFile(uintptr(fd), ""), &st, depth+1)
}

// named adds the name of an entry to an error; nil stays nil.
func named(name string, err error) error {
	if err != nil {
		err = fmt.Errorf("%q: %w", name, err)
	}
	return err
}

// onMount reports whether an open directory is on the mount of the tree: it may have been replaced, or mounted on, since
// its entry was read.
func (w *walk) onMount(fd int) (bool, error) {
	if w.mountOfDirectory != 0 {
		id, err := fdpath.Mount(fd)
		return id == w.mountOfDirectory, err
	}
	var st unix.Statx_t
	err := statx(fd, "", unix.AT_EMPTY_PATH, &st)
	return st.Mnt_id == w.mount, err
}

// open opens a directory, without a change of its access time where that is allowed.
func open(dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := fdpath.Retry(func() (int, error) { return unix.Openat(dir, name, flags|unix.O_NOATIME, 0) })
	if errors.Is(err, unix.EPERM) {
		return fdpath.Retry(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
	}
	return fd, err
}

// statx requests the fields that a walk needs, without access to the servers of network file systems.
func statx(fd int, name string, flags int, st *unix.Statx_t) error {
	return unix.Statx(fd, name, flags|unix.AT_STATX_DONT_SYNC, mask, st)
}
