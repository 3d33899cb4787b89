package gc

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// rotatedForm is the suffix of a rotated log after its name and a dot: the
	// kubelet's form with milliseconds, since a fast writer fills more than one
	// file in a second. Names sort by age.
	rotatedForm = kubeletForm + ".000"
	// kubeletForm parses both.
	kubeletForm = "20060102-150405"
	gzSuffix    = ".gz"
	tmpSuffix   = ".tmp"
)

// rotated returns the names of the rotated files of a log, oldest first. A file
// that is being compressed, or was, is included once.
func rotated(log string) ([]string, error) {
	there, err := filesNextTo(log)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range there {
		if !strings.HasSuffix(name, tmpSuffix) && !there[name+gzSuffix] {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(strings.TrimSuffix(a, gzSuffix), strings.TrimSuffix(b, gzSuffix))
	})
	return names, nil
}

// filesNextTo returns the files in a log's directory whose names start with the
// log's.
func filesNextTo(log string) (map[string]bool, error) {
	dir, base := filepath.Split(log)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), base+".") && e.Type().IsRegular() {
			there[e.Name()] = true
		}
	}
	return there, nil
}

// removeUnfinished removes what an interrupted compression left: incomplete
// files, and originals that have been compressed.
func removeUnfinished(log string) error {
	there, err := filesNextTo(log)
	if err != nil {
		return err
	}
	for name := range there {
		if strings.HasSuffix(name, tmpSuffix) || there[name+gzSuffix] {
			if err := os.Remove(filepath.Join(filepath.Dir(log), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// rotatedName returns the next name of a log that is rotated now. It sorts after
// all others, whatever the clock says.
func rotatedName(log string, others []string, now time.Time) string {
	base := filepath.Base(log) + "."
	now = now.UTC().Truncate(time.Millisecond)
	if len(others) > 0 {
		last := strings.TrimSuffix(strings.TrimPrefix(others[len(others)-1], base), gzSuffix)
		if at, err := time.Parse(kubeletForm, last); err == nil && !now.After(at) {
			now = at.Add(time.Millisecond)
		}
	}
	return base + now.Format(rotatedForm)
}

// rotate renames a log, and makes the runtime write to a new one through reopen.
// Until then the runtime writes to the renamed one, so no line is lost. If reopen
// fails, the log gets its name back.
func rotate(log string, maxFiles int, now time.Time, reopen func() error) error {
	dir := filepath.Dir(log)
	others, err := rotated(log)
	if err != nil {
		return err
	}
	// With this one and the new log the limit is reached.
	for len(others) > 0 && len(others) > maxFiles-2 {
		if err := os.Remove(filepath.Join(dir, others[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		others = others[1:]
	}
	to := filepath.Join(dir, rotatedName(log, others, now))
	if err := os.Rename(log, to); err != nil {
		return err
	}
	if err := reopen(); err != nil {
		// If the runtime did it and only its reply was lost, there is a new log.
		back := unix.Renameat2(unix.AT_FDCWD, to, unix.AT_FDCWD, log, unix.RENAME_NOREPLACE)
		if back != nil && !errors.Is(back, unix.EEXIST) {
			err = errors.Join(err, back)
		}
		return err
	}
	return nil
}

// compress compresses the rotated files of a log except the newest, which readers
// most likely read. stop is called between files.
func compress(log string, stop func() bool) error {
	if err := removeUnfinished(log); err != nil {
		return err
	}
	names, err := rotated(log)
	if err != nil {
		return err
	}
	for _, name := range names[:max(0, len(names)-1)] {
		if stop() {
			return nil
		}
		if strings.HasSuffix(name, gzSuffix) {
			continue
		}
		if err := compressFile(filepath.Join(filepath.Dir(log), name)); err != nil {
			return err
		}
	}
	return nil
}

// compressFile replaces a file with a compressed one with its times and mode.
func compressFile(path string) (err error) {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	tmp := path + gzSuffix + tmpSuffix
	to, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
		}
	}()
	z, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return errors.Join(err, to.Close())
	}
	_, err = io.Copy(z, from)
	err = errors.Join(err, z.Close())
	if err == nil {
		// The original is removed next: a power failure must not lose its
		// content.
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("failed to compress %s: %w", path, err)
	}
	// Readers use the time of the last line.
	if err = os.Chtimes(tmp, info.ModTime(), info.ModTime()); err != nil {
		return err
	}
	if err = os.Rename(tmp, path+gzSuffix); err != nil {
		return err
	}
	// A rotation may have removed it meanwhile.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// podLogs returns the files below a pod's log directory.
func podLogs(dir string, current map[string]bool) []logFile {
	var files []logFile
	for _, container := range subdirectories(dir) {
		path := filepath.Join(dir, container)
		entries, _ := os.ReadDir(path)
		for _, e := range entries {
			file := filepath.Join(path, e.Name())
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			files = append(files, logFile{path: file, size: info.Size(), modified: info.ModTime(), current: current[file]})
		}
	}
	return files
}
