package statefiletest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/podstead/podstead/internal/statefile"
)

// Fault is what happens at an operation of a Disk.
type Fault string

const (
	// Killed means that the operation is the last one of its daemon.
	Killed Fault = "killed"
	// Torn means that a write is the last operation, and writes the first half.
	Torn Fault = "torn"
	// Fails means that the operation fails, and no other.
	Fails Fault = "fails"
	// Full means that the operation and all that follow fail.
	Full Fault = "full"
	// Cut means that the power fails after the operation: of what was not brought to the disk of a file half is
	// there.
	Cut Fault = "cut"
	// Lost is a Cut after which the directory is as it was brought to the disk the last time.
	Lost Fault = "lost"
)

// Disk are the operations on files below a directory, with one fault. It counts its operations, but for reads, from 1.
type Disk struct {
	statefile.OS
	root  string
	fault Fault
	at    int // 0 is no fault
	// Err is the error of an operation that fails.
	Err error

	mu sync.Mutex
	// operations are those that were begun, such as "rename state.json".
	operations []string
	ended      bool // the daemon was killed, or the power is off
	// unsynced are the files, by their present path, whose content is not on the disk, with the number of bytes
	// that are; durable are the directories as they are on the disk: name to content.
	unsynced map[string]int
	durable  map[string]map[string][]byte
}

// New returns a disk below root with a fault at one operation; none at 0.
func New(root string, f Fault, at int) *Disk {
	d := &Disk{root: root, fault: f, at: at, Err: errFault, unsynced: map[string]int{},
		durable: map[string]map[string][]byte{}}
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			d.durable[path] = contents(path)
		}
		return err
	})
	return d
}

// contents returns the files of a directory.
func contents(dir string) map[string][]byte {
	files := map[string][]byte{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if data, err := os.ReadFile(filepath.Join(dir, e.Name())); err == nil {
			files[e.Name()] = data
		}
	}
	return files
}

var (
	errFault  = errors.New("input/output error")
	errKilled = errors.New("the daemon was killed")
)

// Operations returns the operations that were begun, such as "rename state.json".
func (d *Disk) Operations() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.operations
}

// do counts an operation and does it, unless its fault prevents it.
func (d *Disk) do(name, path string, act func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return errKilled
	}
	d.operations = append(d.operations, name+" "+filepath.Base(path))
	n := len(d.operations)
	switch {
	case d.at == 0 || n < d.at, d.fault == Fails && n > d.at:
		return act()
	case d.fault == Fails || d.fault == Full:
		return d.Err
	}
	err := act()
	d.end()
	return err
}

// End ends the daemon; the disk has what is on it then.
func (d *Disk) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
}

func (d *Disk) end() {
	d.ended = true
	switch d.fault {
	case Cut:
		for path := range d.unsynced {
			if data, err := os.ReadFile(path); err == nil {
				_ = os.WriteFile(path, d.onDisk(path, data), 0o600)
			}
		}
	case Lost:
		_ = filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				_ = os.Remove(path)
			}
			return nil
		})
		for dir, files := range d.durable {
			for name, data := range files {
				_ = os.MkdirAll(dir, 0o700)
				_ = os.WriteFile(filepath.Join(dir, name), data, 0o600)
			}
		}
	}
}

// onDisk returns what is on the disk of the content of a file.
func (d *Disk) onDisk(path string, data []byte) []byte {
	if synced, ok := d.unsynced[path]; ok {
		return data[:synced+(len(data)-synced)/2]
	}
	return data
}

// MkdirAll is that of the operating system, unless its fault prevents it.
func (d *Disk) MkdirAll(path string, mode os.FileMode) error {
	return d.do("mkdir", path, func() error { return d.OS.MkdirAll(path, mode) })
}

// Remove is that of the operating system, unless its fault prevents it.
func (d *Disk) Remove(path string) error {
	return d.do("remove", path, func() error { return d.OS.Remove(path) })
}

// RemoveAll is that of the operating system, unless its fault prevents it.
func (d *Disk) RemoveAll(path string) error {
	return d.do("remove all", path, func() error { return d.OS.RemoveAll(path) })
}

// Rename is that of the operating system, unless its fault prevents it.
func (d *Disk) Rename(from, to string) error {
	return d.do("rename", to, func() error {
		delete(d.unsynced, to)
		if synced, ok := d.unsynced[from]; ok {
			d.unsynced[to] = synced
		}
		delete(d.unsynced, from)
		return d.OS.Rename(from, to)
	})
}

// Sync is that of the operating system, unless its fault prevents it.
func (d *Disk) Sync(path string) error {
	return d.do("sync", path, func() error {
		delete(d.unsynced, path)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			// What is not brought to the disk of a file is not in the directory either.
			files := contents(path)
			for name, data := range files {
				files[name] = d.onDisk(filepath.Join(path, name), data)
			}
			d.durable[path] = files
		}
		return d.OS.Sync(path)
	})
}

// Create is that of the operating system, unless its fault prevents it.
func (d *Disk) Create(path string, mode os.FileMode) (f statefile.Writer, err error) {
	err = d.do("create", path, func() error {
		f, err = d.OS.Create(path, mode)
		d.unsynced[path] = 0
		return err
	})
	return &file{d, path, f}, err
}

// Append is that of the operating system, unless its fault prevents it.
func (d *Disk) Append(path string) (f statefile.Writer, err error) {
	err = d.do("append", path, func() error {
		if info, err := os.Stat(path); err == nil {
			if _, ok := d.unsynced[path]; !ok {
				d.unsynced[path] = int(info.Size())
			}
		}
		f, err = d.OS.Append(path)
		return err
	})
	return &file{d, path, f}, err
}

// file is a file of a Disk.
type file struct {
	disk *Disk
	path string
	statefile.Writer
}

func (f *file) Write(data []byte) (n int, err error) {
	err = f.disk.do("write", f.path, func() error {
		if f.disk.fault == Torn && len(f.disk.operations) == f.disk.at {
			data = data[:len(data)/2]
		}
		n, err = f.Writer.Write(data)
		return err
	})
	return n, err
}

func (f *file) Sync() error {
	return f.disk.do("fsync", f.path, func() error {
		delete(f.disk.unsynced, f.path)
		return f.Writer.Sync()
	})
}
