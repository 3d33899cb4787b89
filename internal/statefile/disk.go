package statefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/unwritten"
)

// Suffix is appended to the name of a file while it is written. It is fixed, so that the next write removes what a
// crash left behind. Each file may therefore have only one writer at a time.
const Suffix = ".tmp"

// Durability is what a write survives when it has returned without an error.
type Durability uint8

const (
	// Durable means that the new content is there after a power cut.
	Durable Durability = iota
	// Atomic means that after a power cut there is the old or the new content. It saves the sync of the directory, for
	// files that are written often, or mean nothing after a boot.
	Atomic
	// Unsynced means that a killed daemon leaves the old or the new content, a power cut perhaps a damaged file.
	Unsynced
)

// Disk is where files are, and where writes that failed are reported. The zero value is the disk of the operating
// system, without reports.
type Disk struct {
	// Operations replaces the operating system in tests.
	Operations Operations
	// Unwritten takes the files that could not be written, and repeats the writes.
	Unwritten *unwritten.Files
}

// Operations are the operations on files and directories, one method for each of the file system, so that a test can
// fail, or end the daemon, at each.
type Operations interface {
	// Read reads a file of at most limit bytes.
	Read(path string, limit int64) ([]byte, error)
	MkdirAll(path string, mode os.FileMode) error
	// Create creates a file that does not exist.
	Create(path string, mode os.FileMode) (Writer, error)
	// Append opens a file that exists, to write after what it has.
	Append(path string) (Writer, error)
	Rename(from, to string) error
	Remove(path string) error
	RemoveAll(path string) error
	// Sync brings a file or a directory to the disk.
	Sync(path string) error
}

// Writer is a file that is written.
type Writer interface {
	Write(data []byte) (int, error)
	Sync() error
	Close() error
}

// OS are the operations of the operating system.
type OS struct{}

// Read reads a file of at most limit bytes. The administrator may have replaced it by a link.
func (OS) Read(path string, limit int64) ([]byte, error) {
	data, err := boundedfile.Read(path, limit)
	if errors.Is(err, syscall.ELOOP) {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return boundedfile.Read(target, limit)
		}
	}
	return data, err
}

// MkdirAll is that of package os.
func (OS) MkdirAll(path string, mode os.FileMode) error { return os.MkdirAll(path, mode) }

// Rename is that of package os.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove is that of package os.
func (OS) Remove(path string) error { return os.Remove(path) }

// RemoveAll is that of package os.
func (OS) RemoveAll(path string) error { return os.RemoveAll(path) }

// Create creates a file that does not exist.
func (OS) Create(path string, mode os.FileMode) (Writer, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

// Append opens a file that exists, to write after what it has.
func (OS) Append(path string) (Writer, error) { return os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0) }

// Sync brings a file or a directory to the disk.
func (OS) Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Do returns the operations, for what is not a File.
func (d Disk) Do() Operations {
	if d.Operations == nil {
		return OS{}
	}
	return d.Operations
}

// Replace gives the file at path this content and mode, which the umask restricts. A reader, and the next daemon if
// this one is killed, find the old content or the new content, complete.
func (d Disk) Replace(path string, data []byte, mode os.FileMode, durability Durability) (err error) {
	do, tmp := d.Do(), path+Suffix
	// An existing file could have another mode, or be a link.
	_ = do.Remove(tmp)
	f, err := do.Create(tmp, mode)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil && durability != Unsynced {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = do.Rename(tmp, path)
	}
	if err != nil {
		_ = do.Remove(tmp) // gives a full disk its space back
		return err
	}
	if durability == Durable {
		return do.Sync(filepath.Dir(path))
	}
	return nil
}

// replaceIn is Replace in a directory that is created with this mode if it is missing; with 0 it has to exist.
func (d Disk) replaceIn(dirMode os.FileMode, path string, data []byte, mode os.FileMode, durability Durability) error {
	err := d.Replace(path, data, mode, durability)
	if dirMode == 0 || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(path)
	if err := d.Do().MkdirAll(dir, dirMode); err != nil {
		return err
	}
	if durability == Durable {
		if err := d.Do().Sync(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return d.Replace(path, data, mode, durability)
}
