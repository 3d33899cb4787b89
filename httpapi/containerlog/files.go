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
	// gzSuffix is the suffix of a file that the rotation has compressed.
	gzSuffix = ".gz"
	// tmpSuffix is the suffix of a file that the rotation is writing.
	tmpSuffix = ".tmp"
)

// Instances returns the numbers N of the instances that have a log in the directory, in
// ascending order. The error is fs.ErrNotExist if the directory does not exist.
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

// logFile is a file of an instance as it was found.
type logFile struct {
	path string
	info fs.FileInfo
}

func (f logFile) compressed() bool { return strings.HasSuffix(f.path, gzSuffix) }

// filesOf returns the files of an instance, oldest first: a rotated file has the time of its
// rotation in its name, and N.log is the newest. If both a file and its compressed form
// exist, it returns the file.
func filesOf(dir string, n int) ([]logFile, error) {
	base := strconv.Itoa(n) + suffix
	names, err := namesOf(dir, base)
	if err != nil {
		return nil, err
	}
	files := infosOf(dir, names)
	// A rotation in between gives the name of the log to another file, and the file that
	// had it would be missed.
	for range maxMoves {
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

// namesOf returns the names of the files of a log in ascending order.
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

// infosOf returns the files with these names that exist.
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

// bare returns the name of a file without the suffix of its compressed form.
func bare(path string) string { return strings.TrimSuffix(path, gzSuffix) }

// after returns the file that continues the current one, which was opened under path. If
// that file was removed or compressed in the meantime, it is the oldest file that was
// modified since; a compressed file keeps the modification time.
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
