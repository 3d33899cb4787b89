package containerlog

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const suffix = ".log"

// Instances are the numbers N of the instances of which the folder has a log,
// ascending. A folder that does not exist is an error that is fs.ErrNotExist.
func Instances(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, e := range entries {
		number, rest, ok := strings.Cut(e.Name(), suffix)
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < 0 || packed(rest) {
			continue
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// packed says that what follows N.log in a name marks a file that is not to be
// read as it is: one that a log rotation compressed or is at work on.
func packed(rest string) bool {
	return strings.HasSuffix(rest, ".gz") || strings.HasSuffix(rest, ".tmp")
}

// logFile is a file of an instance, as it was found.
type logFile struct {
	path string
	info fs.FileInfo
}

// filesOf are the readable files of an instance, oldest first: what was rotated
// away carries the time of its rotation, and N.log itself is the newest.
func filesOf(dir string, n int) ([]logFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	base := strconv.Itoa(n) + suffix
	var files []logFile
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), base)
		if !ok || packed(rest) || (rest != "" && rest[0] != '.') {
			continue
		}
		path := filepath.Join(dir, e.Name())
		// Stat, not Lstat: cri-dockerd's N.log is a link.
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		files = append(files, logFile{path: path, info: info})
	}
	slices.SortFunc(files, func(a, b logFile) int {
		switch {
		case filepath.Base(a.path) == base:
			return 1
		case filepath.Base(b.path) == base:
			return -1
		}
		return cmp.Compare(a.path, b.path)
	})
	return files, nil
}

// after is the file that continues the given one. If that one was removed or
// compressed meanwhile, it is the oldest that was written to since.
func after(files []logFile, current fs.FileInfo) (logFile, bool) {
	for i, f := range files {
		if os.SameFile(f.info, current) {
			if i+1 < len(files) {
				return files[i+1], true
			}
			return logFile{}, false
		}
	}
	for _, f := range files {
		if !f.info.ModTime().Before(current.ModTime()) {
			return f, true
		}
	}
	return logFile{}, false
}
