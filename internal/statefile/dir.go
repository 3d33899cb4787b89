package statefile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// suffixKey is the end of the name of a file of a Dir, after its key.
const suffixKey = ".json"

// Dir is a directory with a File for each key: DIR/KEY.json. It is safe for concurrent use. The directory is created
// by the first Save.
type Dir[T any] struct {
	format *Format[T]
	path   string
	disk   Disk

	mu    sync.Mutex
	files map[string]*File[T]
}

// Dir returns the directory at a path.
func (f *Format[T]) Dir(path string, disk Disk) *Dir[T] {
	return &Dir[T]{format: f, path: path, disk: disk, files: map[string]*File[T]{}}
}

// Clean removes what writes that were interrupted have left. The error is that of a directory that cannot be read.
func (d *Dir[T]) Clean() error {
	entries, err := os.ReadDir(d.path)
	if err != nil && !isMissing(err) {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), Suffix) {
			// A failure does not matter: the next write replaces the file.
			_ = d.disk.Do().Remove(filepath.Join(d.path, e.Name()))
		}
	}
	return nil
}

// Keys returns the keys that have a file, also one that was moved aside, in no order and without duplicates.
func (d *Dir[T]) Keys() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil && !isMissing(err) {
		return nil, err
	}
	var keys []string
	seen := map[string]bool{}
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimSuffix(e.Name(), SuffixDamaged), SuffixNewer)
		if key, ok := strings.CutSuffix(name, suffixKey); ok && !seen[key] {
			keys, seen[key] = append(keys, key), true
		}
	}
	return keys, nil
}

// File returns the file of a key. It rejects a key that could lead out of the directory: keys are validated before,
// and this is the last check before a file is written as root.
func (d *Dir[T]) File(key string) (*File[T], error) {
	if key == "" || strings.ContainsAny(key, "/\\\x00") || strings.HasPrefix(key, ".") {
		return nil, fmt.Errorf("%q is not valid as the name of a file", key)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[key]
	if f == nil {
		f = d.format.File(filepath.Join(d.path, key+suffixKey), d.disk)
		d.files[key] = f
	}
	return f, nil
}

// Remove removes the file of a key. A missing one is no error.
func (d *Dir[T]) Remove(key string) error {
	f, err := d.File(key)
	if err != nil {
		return err
	}
	if err := f.Remove(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, key)
	return nil
}
