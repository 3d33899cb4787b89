package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/fdpath"
)

// removeDepth limits the directories that removal holds open. A deeper directory is
// moved up to the top of the tree first, so that no tree of a container is too deep to remove.
const removeDepth = 64

// relocatedPrefix begins the names of directories that were moved up.
const relocatedPrefix = ".removed-"

// removeAttempts is how often a directory is read in which entries are left: one that shrinks
// meanwhile may miss some.
const removeAttempts = 10

// removeTree deletes a file or a directory with its content. It never follows a link
// and never crosses a mount point, even one that is mounted in the meantime: that is
// an error that names the mount point. A path that does not exist is no error.
func removeTree(path string) error {
	parent := filepath.Dir(filepath.Clean(path))
	dir, err := openRoot(parent)
	if err != nil {
		return ignoreNotExist(err)
	}
	defer unix.Close(dir)
	return removeIn(dir, path)
}

// removeIn is removeTree for the last element of a path, in the open directory above it.
func removeIn(dir int, path string) error {
	mount, err := fdpath.Mount(dir)
	if err != nil {
		return err
	}
	r := remover{mount: mount}
	if err := r.remove(dir, filepath.Base(path), path, 0); err != nil {
		return err
	}
	// Earlier versions moved directories up next to the tree, and left them there if they were
	// killed.
	for i := range removeDepth {
		name := relocatedPrefix + strconv.Itoa(i)
		if unix.Faccessat(dir, name, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) != nil {
			break
		}
		r := remover{mount: mount}
		if err := r.remove(dir, name, filepath.Join(filepath.Dir(path), name), 0); err != nil {
			return err
		}
	}
	return nil
}

type remover struct {
	// tree is the top directory of the tree, mount the ID of the mount that it is on.
	tree, mount int
	// relocated counts the directories that were moved up into tree. A removal that is killed leaves
	// them there, for the next one of the same tree.
	relocated int
}

// relocate moves a directory up to the top of the tree.
func (r *remover) relocate(dir int, name string) error {
	for {
		err := unix.Renameat2(dir, name, r.tree, relocatedPrefix+strconv.Itoa(r.relocated), unix.RENAME_NOREPLACE)
		if err == nil || errors.Is(err, unix.EEXIST) {
			r.relocated++
		}
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
}

// remove deletes one entry of a directory. path is for messages only.
func (r *remover) remove(dir int, name, path string, depth int) error {
	err := ignoreNotExist(unix.Unlinkat(dir, name, 0))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY):
		return stillMountedError(path)
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	if depth >= removeDepth {
		if err := r.relocate(dir, name); err != nil {
			return &os.PathError{Op: "move", Path: path, Err: err}
		}
		return nil
	}
	for left := removeAttempts; left > 0; left-- {
		relocated := r.relocated
		if err = r.empty(dir, name, path, depth); err != nil {
			return err
		}
		if err = ignoreNotExist(unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)); !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
		if depth == 0 && r.relocated > relocated {
			left = removeAttempts + 1 // what was moved up is in it, and may be too deep again
		}
	}
	switch {
	case errors.Is(err, unix.EBUSY):
		return stillMountedError(path)
	case err != nil:
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// empty deletes the content of a directory.
func (r *remover) empty(dir int, name, path string, depth int) error {
	fd, err := fdpath.Retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	id, err := fdpath.Mount(fd)
	if err != nil {
		return err
	}
	if id != r.mount {
		return stillMountedError(path)
	}
	if depth == 0 {
		r.tree = fd
	}
	for {
		names, err := f.Readdirnames(256)
		for _, entry := range names {
			if err := r.remove(fd, entry, filepath.Join(path, entry), depth+1); err != nil {
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

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stillMountedError is the error for a mount that this package did not make.
func stillMountedError(path string) error {
	return fmt.Errorf("%s is still mounted; stop what uses it, then run: umount %s", path, path)
}
