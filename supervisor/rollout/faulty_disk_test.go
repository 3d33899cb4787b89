package rollout

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fault is what happens at an operation of a faultyDisk.
type fault string

const (
	// killed: the operation is the last one of its daemon.
	killed fault = "killed"
	// torn: a write is the last operation, and writes the first half.
	torn fault = "torn"
	// fails: the operation fails, and no other.
	fails fault = "fails"
	// full: the operation and all that follow fail.
	full fault = "full"
	// cut and lost: the power fails after the operation. Of files that were not brought to
	// the disk half of the content is there (cut), or the directory is as it was brought to
	// the disk the last time (lost).
	cut  fault = "cut"
	lost fault = "lost"
)

// faultyDisk is a disk below a directory with one fault. It counts its operations from 1.
type faultyDisk struct {
	osDisk
	root  string
	fault fault
	at    int // 0 is no fault

	mu sync.Mutex
	// operations are those that were begun, such as "rename state.json".
	operations []string
	ended      bool // the daemon was killed, or the power is off
	// unsynced are the files, by their present path, whose content is not on the disk;
	// durable are the directories as they are on the disk: name to content.
	unsynced map[string]bool
	durable  map[string]map[string][]byte
}

func newFaultyDisk(root string, f fault, at int) *faultyDisk {
	d := &faultyDisk{root: root, fault: f, at: at, unsynced: map[string]bool{}, durable: map[string]map[string][]byte{}}
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

// do counts an operation and does it, unless its fault prevents it.
func (d *faultyDisk) do(name, path string, act func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return errKilled
	}
	d.operations = append(d.operations, name+" "+filepath.Base(path))
	n := len(d.operations)
	switch {
	case d.at == 0 || n < d.at, d.fault == fails && n > d.at:
		return act()
	case d.fault == fails || d.fault == full:
		return errFault
	}
	err := act()
	d.end()
	return err
}

// end ends the daemon; the disk has what is on it then.
func (d *faultyDisk) end() {
	d.ended = true
	switch d.fault {
	case cut:
		for path := range d.unsynced {
			if data, err := os.ReadFile(path); err == nil {
				_ = os.WriteFile(path, data[:len(data)/2], 0o600)
			}
		}
	case lost:
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

func (d *faultyDisk) MkdirAll(path string) error {
	return d.do("mkdir", path, func() error { return d.osDisk.MkdirAll(path) })
}

func (d *faultyDisk) Remove(path string) error {
	return d.do("remove", path, func() error { return d.osDisk.Remove(path) })
}

func (d *faultyDisk) RemoveAll(path string) error {
	return d.do("remove all", path, func() error { return d.osDisk.RemoveAll(path) })
}

func (d *faultyDisk) Rename(from, to string) error {
	return d.do("rename", to, func() error {
		if delete(d.unsynced, to); d.unsynced[from] {
			d.unsynced[to] = true
		}
		delete(d.unsynced, from)
		return d.osDisk.Rename(from, to)
	})
}

func (d *faultyDisk) SyncPath(path string) error {
	return d.do("sync", path, func() error {
		delete(d.unsynced, path)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			// What is not brought to the disk of a file is not in the directory either.
			files := contents(path)
			for name := range files {
				if d.unsynced[filepath.Join(path, name)] {
					files[name] = files[name][:len(files[name])/2]
				}
			}
			d.durable[path] = files
		}
		return d.osDisk.SyncPath(path)
	})
}

func (d *faultyDisk) Create(path string) (f diskFile, err error) {
	err = d.do("create", path, func() error {
		f, err = d.osDisk.Create(path)
		d.unsynced[path] = true
		return err
	})
	return &faultyFile{d, path, f}, err
}

// faultyFile is a file of a faultyDisk.
type faultyFile struct {
	disk *faultyDisk
	path string
	diskFile
}

func (f *faultyFile) Write(data []byte) (n int, err error) {
	err = f.disk.do("write", f.path, func() error {
		if f.disk.fault == torn && len(f.disk.operations) == f.disk.at {
			data = data[:len(data)/2]
		}
		n, err = f.diskFile.Write(data)
		return err
	})
	return n, err
}

func (f *faultyFile) Sync() error {
	return f.disk.do("fsync", f.path, func() error {
		delete(f.disk.unsynced, f.path)
		return f.diskFile.Sync()
	})
}

// isStateChange reports whether an operation brings a state into effect, or removes it.
func isStateChange(operation string) bool {
	return operation == "rename "+stateFile || operation == "remove "+stateFile ||
		strings.HasPrefix(operation, "remove all ")
}

// The disk tears what was not brought to it, and loses what its directory does not have.
func TestFaultyDisk(t *testing.T) {
	for f, want := range map[fault]string{killed: "new.", torn: "old", fails: "old", full: "old", cut: "ne", lost: "old"} {
		root := t.TempDir()
		path := filepath.Join(root, "a")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := 4 // remove, create, write, rename
		if f == torn {
			at = 3
		}
		err := replaceFile(newFaultyDisk(root, f, at), path, []byte("new."), false)
		if got, _ := os.ReadFile(path); string(got) != want || (err == nil) != (f == killed || f == cut || f == lost) {
			t.Errorf("%s: %q, %v; want %q", f, got, err, want)
		}
	}
}
