package ipam

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// removeEmpty removes those of the files in dir, selected by name, that are empty and were
// written before boot, and returns their paths. No process of this boot writes such a file
// any more. Errors of single files are joined, after the others were removed.
func removeEmpty(dir string, files []fs.DirEntry, boot time.Time, selected func(name string) bool) (removed []string,
	err error) {
	var errs []error
	for _, file := range files {
		if !selected(file.Name()) {
			continue
		}
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

// readDir lists a directory; one that does not exist is empty.
func readDir(dir string) ([]fs.DirEntry, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return files, err
}
