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
	// rotatedForm is what a rotated log has after its name and a dot: the
	// kubelet's form with milliseconds, since a fast writer fills more than one
	// file in a second. Names sort by age.
	rotatedForm = kubeletForm + ".000"
	// kubeletForm parses both.
	kubeletForm = "20060102-150405"
	gzSuffix    = ".gz"
	tmpSuffix   = ".tmp"
)

// rotated are the names of the files that were rotated away from a log,
// oldest first. A file that is being compressed, or was, is there once.
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

// siblings are the files beside a log with its name and more.
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

// removeUnfinished removes what a compression that was cut short left: files
// not written to their end, and originals that have been compressed.
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

// rotatedName is the next name of a log that is rotated now. It comes after
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

// rotate renames a log, and makes the runtime write to a new one through
// reopen. Until it does so it writes to the renamed one: no line is lost. If
// it refuses, the name is given back.
func rotate(log string, maxFiles int, now time.Time, reopen func() error) error {
	dir := filepath.Dir(log)
	others, err := rotated(log)
	if err != nil {
		return err
	}
	// With this one and the new log there are as many as there may be.
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
		// If the runtime did it and only its answer was lost, there is a new log.
		back := unix.Renameat2(unix.AT_FDCWD, to, unix.AT_FDCWD, log, unix.RENAME_NOREPLACE)
		if back != nil && !errors.Is(back, unix.EEXIST) {
			err = errors.Join(err, back)
		}
		return err
	}
	return nil
}

// compress compresses what was rotated away from a log, but for the newest,
// which readers are most likely at. stop is asked between files.
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

// compressFile replaces a file by a compressed one with its times and mode.
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
		// The original goes next: it must not be lost to a power failure.
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("failed to compress %s: %w", path, err)
	}
	// Readers go by the time of the last line.
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

// podLogs are the files below a pod's log folder.
func podLogs(dir string, current map[string]bool) []logFile {
	var files []logFile
	for _, container := range subdirectories(dir) {
		folder := filepath.Join(dir, container)
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			files = append(files, logFile{path: path, size: info.Size(), modified: info.ModTime(), current: current[path]})
		}
	}
	return files
}
