package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// removeDepth is how deep removal holds folders open. What lies deeper is
// moved up first, so that no tree that a container made is too deep to remove.
const removeDepth = 64

// buriedPrefix begins the names that folders get that were moved up.
const buriedPrefix = ".removed-"

// removeTree deletes a folder or file with all below it. It never follows a
// link and never goes into another mount, whatever is mounted meanwhile: such a
// find is an error that names the place. What is gone already is no error.
func removeTree(path string) error {
	parent, name := filepath.Split(filepath.Clean(path))
	dir, err := retry(func() (int, error) { return unix.Open(parent, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: parent, Err: err}
	}
	defer unix.Close(dir)
	r := remover{top: dir}
	if r.mount, err = mountID(dir); err != nil {
		return err
	}
	if err := r.remove(dir, name, path, 0); err != nil {
		return err
	}
	// What was moved up may be deep again.
	for i := 0; i < r.buried; i++ {
		name := buriedName(i)
		if err := r.remove(dir, name, filepath.Join(parent, name), 0); err != nil {
			return err
		}
	}
	return nil
}

type remover struct {
	// top is the folder that holds the tree, mount the mount that it lies in.
	top, mount int
	buried     int
}

func buriedName(i int) string { return buriedPrefix + strconv.Itoa(i) }

// remove deletes one entry of a folder. path is for messages only.
func (r *remover) remove(dir int, name, path string, depth int) error {
	err := ignoreGone(unix.Unlinkat(dir, name, 0))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY):
		return stillMounted(path)
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	if depth >= removeDepth {
		if err := unix.Renameat(dir, name, r.top, buriedName(r.buried)); err != nil {
			return &os.PathError{Op: "move", Path: path, Err: err}
		}
		r.buried++
		return nil
	}
	// A folder that is read while it shrinks may hide an entry.
	for range 10 {
		if err = r.empty(dir, name, path, depth); err != nil {
			return err
		}
		if err = ignoreGone(unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)); !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
	}
	switch {
	case errors.Is(err, unix.EBUSY):
		return stillMounted(path)
	case err != nil:
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// empty deletes what is in a folder.
func (r *remover) empty(dir int, name, path string, depth int) error {
	fd, err := retry(func() (int, error) {
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
	id, err := mountID(fd)
	if err != nil {
		return err
	}
	if id != r.mount {
		return stillMounted(path)
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

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stillMounted is the error for a mount that is not ours to take down.
func stillMounted(path string) error {
	return fmt.Errorf("%s is still mounted; end what uses it, then: umount %s", path, path)
}

// mountID tells the mount that a descriptor's file lies in. Devices would not
// do: a bind mount of the same file system has the same one.
func mountID(fd int) (int, error) {
	data, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, fmt.Errorf("cannot tell what is mounted: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(id))
		}
	}
	return 0, errors.New("cannot tell what is mounted: /proc/self/fdinfo names no mnt_id")
}
