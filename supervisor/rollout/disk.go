package rollout

import (
	"errors"
	"os"

	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/internal/boundedfile"
)

// disk are the operations with which a store reads and changes files and directories, one method
// for each of the file system, so that a test can fail, or end the daemon, at each.
type disk interface {
	// Read reads a file of at most maxFile bytes.
	Read(path string) ([]byte, error)
	MkdirAll(path string) error
	// Create creates a file that does not exist, for its owner alone.
	Create(path string) (diskFile, error)
	Rename(from, to string) error
	Remove(path string) error
	RemoveAll(path string) error
	// SyncPath brings a file or a directory to the disk.
	SyncPath(path string) error
}

// diskFile is a file that is written.
type diskFile interface {
	Write(data []byte) (int, error)
	Sync() error
	Close() error
}

// osDisk is the disk of the operating system.
type osDisk struct{}

func (osDisk) Read(path string) ([]byte, error) { return boundedfile.Read(path, maxFile) }
func (osDisk) MkdirAll(path string) error       { return os.MkdirAll(path, 0o700) }
func (osDisk) Rename(from, to string) error     { return os.Rename(from, to) }
func (osDisk) Remove(path string) error         { return os.Remove(path) }
func (osDisk) RemoveAll(path string) error      { return os.RemoveAll(path) }
func (osDisk) Create(path string) (diskFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, atomicfile.Mode)
}

func (osDisk) SyncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// replaceFile replaces the content of a file. A killed daemon leaves the old or the new
// content; so does a power cut with sync.
func replaceFile(d disk, path string, data []byte, sync bool) error {
	tmp := path + atomicfile.Suffix
	_ = d.Remove(tmp)
	f, err := d.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.Rename(tmp, path)
	}
	if err != nil {
		_ = d.Remove(tmp) // gives a full disk its space back
	}
	return err
}
