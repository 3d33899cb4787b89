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

const (
	suffix = ".log"
	// gzSuffix is that of a file which the rotation compressed.
	gzSuffix = ".gz"
	// tmpSuffix is that of a file which it is writing.
	tmpSuffix = ".tmp"
)

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
		if !ok || err != nil || n < 0 || strings.HasSuffix(rest, tmpSuffix) {
			continue
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// logFile is a file of an instance, as it was found.
type logFile struct {
	path string
	info fs.FileInfo
}

func (f logFile) compressed() bool { return strings.HasSuffix(f.path, gzSuffix) }

// filesOf are the files of an instance, oldest first: what was rotated away
// carries the time of its rotation, and N.log itself is the newest. One that
// is there compressed as well is given as it was.
func filesOf(dir string, n int) ([]logFile, error) {
	base := strconv.Itoa(n) + suffix
	names, err := namesOf(dir, base)
	if err != nil {
		return nil, err
	}
	files := infosOf(dir, names)
	// A rotation in between gives the name of the log to another file, and the
	// one that had it would be missed.
	for range moves {
		again, err := namesOf(dir, base)
		if err != nil {
			return nil, err
		}
		if slices.Equal(names, again) {
			break
		}
		names, files = again, infosOf(dir, again)
	}
	slices.SortFunc(files, func(a, b logFile) int {
		switch {
		case filepath.Base(a.path) == base:
			return 1
		case filepath.Base(b.path) == base:
			return -1
		}
		// The original comes before its compressed form.
		return cmp.Or(cmp.Compare(bare(a.path), bare(b.path)), cmp.Compare(a.path, b.path))
	})
	return slices.CompactFunc(files, func(a, b logFile) bool { return bare(a.path) == bare(b.path) }), nil
}

// namesOf are the names of a log's files in ascending order.
func namesOf(dir, base string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), base)
		if !ok || strings.HasSuffix(rest, tmpSuffix) || (rest != "" && rest[0] != '.') {
			continue
		}
		names = append(names, e.Name())
	}
	return names, nil
}

// infosOf are the files with these names that are there.
func infosOf(dir string, names []string) []logFile {
	var files []logFile
	for _, name := range names {
		path := filepath.Join(dir, name)
		// Stat, not Lstat: cri-dockerd's N.log is a link.
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		files = append(files, logFile{path: path, info: info})
	}
	return files
}

// bare is the name under which a file was rotated.
func bare(path string) string { return strings.TrimSuffix(path, gzSuffix) }

// after is the file that continues the given one, which was opened under the
// given path. If that one was removed or compressed meanwhile, it is the oldest
// that was written to since; a compressed file keeps the time of its last line.
func after(files []logFile, current fs.FileInfo, path string) (logFile, bool) {
	for i, f := range files {
		if os.SameFile(f.info, current) || f.compressed() && bare(f.path) == bare(path) {
			if i+1 < len(files) {
				return files[i+1], true
			}
			return logFile{}, false
		}
	}
	for _, f := range files {
		if t := f.info.ModTime(); t.After(current.ModTime()) || !f.compressed() && t.Equal(current.ModTime()) {
			return f, true
		}
	}
	return logFile{}, false
}
