package gc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// logDir is the log directory of a container, held open. A container may have write
// access to its log directory, or to the one of its pod, and could replace a file or
// the directory by a link to a file of the host. All access goes through the
// descriptor and follows no link.
type logDir struct{ *os.File }

// openLogDir opens ROOT/POD/CONTAINER. Only ROOT may be, or contain, a symbolic link.
func openLogDir(path string) (logDir, error) {
	pod, container := filepath.Split(filepath.Clean(path))
	root, pod := filepath.Split(filepath.Clean(pod))
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Open(root, flags, 0)
	for _, name := range []string{pod, container} {
		if err != nil {
			break
		}
		parent := fd
		fd, err = unix.Openat(parent, name, flags|unix.O_NOFOLLOW, 0)
		_ = unix.Close(parent)
	}
	if err != nil {
		return logDir{}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return logDir{os.NewFile(uintptr(fd), path)}, nil
}

func (d logDir) fd() int { return int(d.Fd()) }

func (d logDir) fault(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: filepath.Join(d.Name(), name), Err: err}
}

// names returns the names of the regular files.
func (d logDir) names() ([]string, error) {
	if _, err := d.Seek(0, 0); err != nil {
		return nil, err
	}
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// stat returns what the directory has under a name, links not followed.
func (d logDir) stat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, d.fault("stat", name, err)
}

// open opens a regular file for reading, without waiting for the writer of a FIFO.
func (d logDir) open(name string) (*os.File, error) {
	fd, err := unix.Openat(d.fd(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, d.fault("open", name, err)
	}
	file := os.NewFile(uintptr(fd), filepath.Join(d.Name(), name))
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = d.fault("open", name, errors.New("not a regular file"))
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// create creates a file for writing. It is an error if the name is taken.
func (d logDir) create(name string, mode fs.FileMode) (*os.File, error) {
	fd, err := unix.Openat(d.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC,
		uint32(mode.Perm()))
	if err != nil {
		return nil, d.fault("create", name, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.Name(), name)), nil
}

// remove removes a file; it is no error if there is none.
func (d logDir) remove(name string) error {
	if err := unix.Unlinkat(d.fd(), name, 0); !errors.Is(err, unix.ENOENT) {
		return d.fault("remove", name, err)
	}
	return nil
}

// rename renames a file, replacing what has the new name.
func (d logDir) rename(from, to string) error {
	return d.fault("rename", from, unix.Renameat(d.fd(), from, d.fd(), to))
}

// renameNew renames a file. It is an error that wraps EEXIST if the new name is taken.
func (d logDir) renameNew(from, to string) error {
	return d.fault("rename", from, unix.Renameat2(d.fd(), from, d.fd(), to, unix.RENAME_NOREPLACE))
}

// isFile returns an error unless a name still refers to an open file.
func (d logDir) isFile(name string, file *os.File) error {
	there, err := d.stat(name)
	if err != nil {
		return err
	}
	var open unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &open); err != nil {
		return d.fault("stat", name, err)
	}
	if there.Dev != open.Dev || there.Ino != open.Ino {
		return fmt.Errorf("%s was replaced while it was read", file.Name())
	}
	return nil
}
