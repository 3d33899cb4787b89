package pullrecords

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/unwritten"
)

// files are the files of the records. What could not be written is read from memory
// until it is. The caller holds the mutex of Records, and so do repeated writes.
type files struct {
	unwritten *unwritten.Files
	// pending are contents by path that could not be written, nil for a file that could
	// not be removed.
	pending map[string][]byte
}

// read returns the content of a file, or an error that wraps fs.ErrNotExist.
func (f *files) read(path string) ([]byte, error) {
	data, ok := f.pending[path]
	switch {
	case !ok:
		return boundedfile.Read(path, maxFile)
	case data == nil:
		return nil, fs.ErrNotExist
	}
	return data, nil
}

// change writes a file or, with nil, removes it. After an error it is repeated.
func (f *files) change(path string, data []byte, repeat func() error) error {
	err := store(path, data)
	if err != nil {
		f.pending[path] = data
	} else {
		delete(f.pending, path)
	}
	f.unwritten.Repeat(path, err, repeat)
	return err
}

// retry repeats a change that failed.
func (f *files) retry(path string) error {
	data, ok := f.pending[path]
	if !ok {
		return nil
	}
	err := store(path, data)
	if err == nil {
		delete(f.pending, path)
	}
	return err
}

func store(path string, data []byte) error {
	if data == nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := atomicfile.Replace(path, data); err != nil {
		return err
	}
	// After a power loss the file must be there if the image is.
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// encode encodes a value that has only strings and numbers, which cannot fail.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("pullrecords: " + err.Error())
	}
	return data
}
