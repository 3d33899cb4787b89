package mounts

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mountID identifies a mount. Where the kernel has no IDs of mounts (before Linux 5.8), mounts of one file system are
// the same.
type mountID struct {
	major, minor uint32
	mount        uint64
}

// IsMountPoint reports whether something is mounted on a path. It asks no server of a network file system.
func IsMountPoint(path string) (bool, error) {
	own, err := mountOf(path)
	if err != nil {
		return false, err
	}
	above, err := mountOf(filepath.Dir(path))
	return own != above, err
}

func mountOf(path string) (mountID, error) {
	var st unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_MNT_ID, &st); err != nil {
		return mountID{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	id := mountID{major: st.Dev_major, minor: st.Dev_minor}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		id.mount = st.Mnt_id
	}
	return id, nil
}
