package ipam

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ResultsDirectory is where the runtime's CNI library keeps the result of each network that a
// sandbox was added to.
const ResultsDirectory = "/var/lib/cni/results"

// RemoveEmptyResults removes the files in dir that are empty and were written before boot, and
// returns their paths. A runtime cannot parse an empty result, so that it never stops or removes
// the sandbox; without a result it removes the network of the sandbox by the configuration. No
// process of this boot writes such a file any more. A directory that does not exist has none.
func RemoveEmptyResults(dir string, boot time.Time) (removed []string, err error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, file := range files {
		info, err := file.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 0 || !info.ModTime().Before(boot) {
			continue
		}
		path := filepath.Join(dir, file.Name())
		if err := os.Remove(path); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, path)
	}
	return removed, errors.Join(errs...)
}
