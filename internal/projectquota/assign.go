package projectquota

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/treewalk"
)

// maxAssigned limits how many files of a directory get a project ID: more would delay the pod too long.
const maxAssigned = 100_000

// ErrTooLarge is the error of Assign for a directory with too many files.
var ErrTooLarge = fmt.Errorf("the directory has more than %d files, or is deeper than %d", maxAssigned,
	treewalk.MaxDepth)

// Assign gives a directory and what it contains a project ID, which new files in it get from then on.
// The directory itself gets it last, so that it has the ID only if all of it has. It follows no link and
// crosses no mount. Links, sockets and devices, which take no space, keep their ID.
func (k *Kernel) Assign(ctx context.Context, dir string, id uint32) error {
	defer k.assigned(id)
	err := treewalk.Walk(ctx, dir, &treewalk.Visitor{
		MaxFiles: maxAssigned,
		File: func(dir int, name string, st *unix.Statx_t) error {
			if st.Mode&unix.S_IFMT != unix.S_IFREG {
				return nil
			}
			fd, err := openEntry(dir, name)
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) {
				return nil
			}
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return setProject(fd, id, false)
		},
		Dir: func(fd int, _ *unix.Statx_t) error { return setProject(fd, id, true) },
	})
	if errors.Is(err, treewalk.ErrTooMany) || errors.Is(err, treewalk.ErrTooDeep) {
		return ErrTooLarge
	}
	return err
}

// openEntry opens an entry of a directory; EXDEV is a mount. Before Linux 5.6 only a mount of another file system
// is one.
func openEntry(dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat2(dir, name,
		&unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return unix.Openat(dir, name, flags, 0)
	}
	return fd, err
}

// setProject gives one file the ID.
func setProject(fd int, id uint32, inherit bool) error {
	var attributes attributes
	err := ioctl(fd, getAttributes, &attributes)
	if err == nil {
		attributes.project = id
		if inherit {
			attributes.flags |= flagInherit
		}
		err = ioctl(fd, setAttributes, &attributes)
	}
	if err != nil {
		return fmt.Errorf("failed to set the project ID: %w", err)
	}
	return nil
}
