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

// Unreadable is the error of a tree of which nothing was visited.
type Unreadable struct{ error }

// Unwrap returns the error of the directory.
func (e *Unreadable) Unwrap() error { return e.error }

// Visitor is called for the files of a tree. An error ends the walk.
type Visitor struct {
	// File is called for each entry of a directory that is none itself.
	File func(dir int, name string, st *unix.Statx_t) error
	// Dir is called for each directory, the top one last: after all that is in it. fd is open for reading.
	Dir func(fd int, st *unix.Statx_t) error
	// TooDeep, if it is set, is called instead of failing with ErrTooDeep, for a directory that is not visited.
	TooDeep func()
	// Failed, if it is set, is called for an entry, or the rest of a directory, that cannot be read. Without an error
	// of its own the walk goes on.
	Failed func(error) error
	// MaxFiles is how many files and directories are visited at most; 0 for any number.
	MaxFiles int
}

// mask are the fields of Statx_t that a Visitor gets, and MNT_ID, where the kernel has it (Linux 5.8).
const mask = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS | unix.STATX_MNT_ID

// Walk visits the tree at path, which must be a directory; it is an *Unreadable error if that cannot be opened. Entries
// that vanish meanwhile are passed over, as are those on another mount. The error names the path of the tree: with the
// names of containers it could be megabytes long.
func Walk(ctx context.Context, path string, v *Visitor) error {
	fd, err := fdpath.Retry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return &Unreadable{&os.PathError{Op: "open", Path: path, Err: err}}
	}
	w := walk{Visitor: v}
	var st unix.Statx_t
	if err = statx(fd, "", unix.AT_EMPTY_PATH, &st); err == nil {
		w.mount = st.Mnt_id
		if st.Mask&unix.STATX_MNT_ID == 0 {
			w.device = unix.Mkdev(st.Dev_major, st.Dev_minor)
			w.mountOfDirectory, err = fdpath.Mount(fd)
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return &Unreadable{&os.PathError{Op: "stat", Path: path, Err: err}}
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
	// mount is the ID of the mount. Its device does not tell: on overlayfs a file can have that of its layer, and on
	// btrfs each subvolume has its own.
	mount uint64
	// mountOfDirectory is the ID, and device the device, on a kernel whose statx does not return the ID.
	mountOfDirectory int
	device           uint64
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
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) { // ENOENT: it was just removed
			return w.Dir(fd, st)
		}
		if failed := (*os.PathError)(nil); errors.As(err, &failed) {
			err = failed.Err // without the names of all directories
		}
		if err != nil {
			if err := w.failed(err); err != nil {
				return err
			}
			return w.Dir(fd, st)
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
		return w.failed(named(name, err))
	case !w.mayBeOnMount(&st):
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
		return w.failed(named(name, err))
	}
	if same, err := w.onMount(fd); !same || err != nil {
		_ = unix.Close(fd)
		return w.failed(named(name, err))
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

// failed passes an error to Failed, if that is set; nil stays nil.
func (w *walk) failed(err error) error {
	if err == nil || w.Failed == nil {
		return err
	}
	return w.Failed(err)
}

// mayBeOnMount reports whether an entry can be on the mount of the tree. Where statx does not return the mount, a file
// is taken to be, and a directory of the same device is checked when it is open.
func (w *walk) mayBeOnMount(st *unix.Statx_t) bool {
	if w.mountOfDirectory == 0 {
		return st.Mnt_id == w.mount
	}
	return st.Mode&unix.S_IFMT != unix.S_IFDIR || unix.Mkdev(st.Dev_major, st.Dev_minor) == w.device
}

// onMount reports whether an open directory is on the mount of the tree: it may have been replaced, or mounted on,
// since its entry was read.
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
