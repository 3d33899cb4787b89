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

// readLimited reads one byte more than a unit may have, so that the loader
// sees, and tells, that it is too large.
func Read(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, manifest.MaxUnitSize+1))
}

// manifestsIn are the files that the daemon would read in a folder.
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

// unreadable says that a file that was named cannot be read, without the name of
// a system call.
func ReadError(path string, err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return fmt.Errorf("cannot read %s: %w", path, err)
}
