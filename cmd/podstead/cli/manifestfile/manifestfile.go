package manifestfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podstead/podstead/manifest"
)

// Read reads a manifest up to one byte beyond the daemon's limit, so that the loader reports
// a manifest that is too large.
func Read(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, manifest.MaxUnitSize+1))
}

// InDirectory returns the files of a directory that the daemon would read.
func InDirectory(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		full := filepath.Join(dir, e.Name())
		if info, err := os.Stat(full); err == nil && !info.IsDir() && manifest.IsManifestFile(e.Name()) {
			files = append(files, full)
		}
	}
	return files, nil
}

// ReadError returns the error for a file that cannot be read, without the name of the system
// call.
func ReadError(path string, err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return fmt.Errorf("failed to read %s: %w", path, err)
}
