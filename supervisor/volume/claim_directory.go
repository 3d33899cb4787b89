package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/fdpath"
)

// Modes of the directories of claims. Any user of a container may write to its claim,
// as with the usual local provisioners; on the host the directories above restrict
// access.
const (
	claimMode      = 0o777
	claimAboveMode = 0o750
)

// lockClaim locks the directory of a claim, which is created and deleted under the lock. It is locked before claims,
// and held while a disk is used that may hang: only pods with this claim wait for that.
func (v *Volumes) lockClaim(namespace, name string) (unlock func()) {
	lock, _ := v.claimLocks.LoadOrStore(namespace+"/"+name, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	return lock.(*sync.Mutex).Unlock
}

// checkClaimDir returns an error if the directory of a claim below the path of a class does not exist, or is reached
// through a link below that path. A removable disk may come with links: what they name on the host would be given to
// pods, get their group, and be deleted with the claim.
func checkClaimDir(dir string) error {
	namespace, err := openNamespace(dir)
	if err != nil {
		return err
	}
	defer unix.Close(namespace)
	fd, err := openDirectory(namespace, dir)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// makeClaimDirBelowClass creates the directory of a claim and the one of its namespace below the path of a class.
func makeClaimDirBelowClass(dir string) error {
	root, err := openRoot(filepath.Dir(filepath.Dir(dir)))
	if err != nil {
		return err
	}
	defer unix.Close(root)
	path := filepath.Dir(dir)
	if err := unix.Mkdirat(root, filepath.Base(path), claimAboveMode); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	namespace, err := openDirectory(root, path)
	if err != nil {
		return err
	}
	defer unix.Close(namespace)
	return makeClaimDir(namespace, dir)
}

// makeClaimDir creates the directory of a claim in that of its namespace.
func makeClaimDir(namespace int, dir string) error {
	// The name of a claim never begins with a dot.
	temporary := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".new")
	err := unix.Mkdirat(namespace, filepath.Base(temporary), claimMode)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdir", Path: temporary, Err: err}
	}
	fd, err := openDirectory(namespace, temporary)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The umask has restricted the mode.
	if err := fdpath.Chmod(fd, claimMode); err != nil {
		return err
	}
	err = unix.Renameat(namespace, filepath.Base(temporary), namespace, filepath.Base(dir))
	if err != nil {
		return &os.LinkError{Op: "rename", Old: temporary, New: dir, Err: err}
	}
	return nil
}

// removeBelowClass deletes the directory of a claim below the path of a class with its content.
func removeBelowClass(dir string) error {
	namespace, err := openNamespace(dir)
	if err != nil {
		return ignoreNotExist(err)
	}
	defer unix.Close(namespace)
	return removeIn(namespace, dir)
}

// openNamespace opens the directory above that of a claim below the path of a class.
func openNamespace(dir string) (int, error) {
	root, err := openRoot(filepath.Dir(filepath.Dir(dir)))
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	return openDirectory(root, filepath.Dir(dir))
}

// openRoot opens a directory that the configuration or a class names. It may be a link.
func openRoot(path string) (int, error) {
	fd, err := fdpath.Retry(func() (int, error) {
		return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// openDirectory opens the last element of a path in the open directory above it. A link is an error.
func openDirectory(above int, path string) (int, error) {
	fd, err := fdpath.Retry(func() (int, error) {
		return unix.Openat(above, filepath.Base(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return -1, fmt.Errorf("%s is no directory; below the path of a StorageClass no symbolic links are followed: put the "+
			"directory there, or let the class's path name its disk", path)
	case errors.Is(err, fs.ErrNotExist):
		return -1, &os.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	case err != nil:
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}
