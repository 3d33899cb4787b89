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
func (d logDir) rotated(log string) ([]string, error) {
	there, err := d.rotatedFiles(log)
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

// rotatedFiles returns the files whose names start with the log's and a dot.
func (d logDir) rotatedFiles(log string) (map[string]bool, error) {
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, name := range names {
		if strings.HasPrefix(name, log+".") {
			there[name] = true
		}
	}
	return there, nil
}

// removeUnfinished removes what an interrupted compression left: incomplete
// files, and originals that have been compressed.
func (d logDir) removeUnfinished(log string) error {
	there, err := d.rotatedFiles(log)
	if err != nil {
		return err
	}
	for name := range there {
		if strings.HasSuffix(name, tmpSuffix) || there[name+gzSuffix] {
			if err := d.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// rotatedName returns the next name of a log that is rotated now. It sorts after
// all others, whatever the clock reports.
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
func rotate(path string, maxFiles int, now time.Time, reopen func() error) error {
	d, err := openLogDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	log := filepath.Base(path)
	others, err := d.rotated(log)
	if err != nil {
		return err
	}
	// With this one and the new log the limit is reached.
	for len(others) > 0 && len(others) > maxFiles-2 {
		if err := d.remove(others[0]); err != nil {
			return err
		}
		others = others[1:]
	}
	to := rotatedName(log, others, now)
	if err := d.renameNew(log, to); err != nil {
		return err
	}
	if err := reopen(); err != nil {
		// If the runtime did it and only its reply was lost, there is a new log.
		if back := d.renameNew(to, log); !errors.Is(back, unix.EEXIST) {
			err = errors.Join(err, back)
		}
		return err
	}
	return nil
}

// compress compresses the rotated files of a log except the newest, which readers
// most likely read. stop is called between files.
func compress(path string, stop func() bool) error {
	d, err := openLogDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	log := filepath.Base(path)
	if err := d.removeUnfinished(log); err != nil {
		return err
	}
	names, err := d.rotated(log)
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
		if err := d.compressFile(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // a rotation may remove it
			return fmt.Errorf("failed to compress %s: %w", filepath.Join(d.Name(), name), err)
		}
	}
	return nil
}

// compressFile replaces a file with a compressed one with its times and mode.
func (d logDir) compressFile(name string) (err error) {
	from, err := d.open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	tmp := name + gzSuffix + tmpSuffix
	to, err := d.create(tmp, info.Mode())
	if err != nil {
		return err
	}
	defer to.Close()
	defer func() {
		if err != nil {
			_ = d.remove(tmp)
		}
	}()
	if err := writeCompressed(to, from); err != nil {
		return err
	}
	// Readers use the time of the last line.
	modified := unix.NsecToTimeval(info.ModTime().UnixNano())
	if err := unix.Futimes(int(to.Fd()), []unix.Timeval{modified, modified}); err != nil {
		return d.fault("set times", tmp, err)
	}
	if err := errors.Join(d.isFile(tmp, to), d.isFile(name, from)); err != nil {
		if errors.Is(err, unix.ENOENT) { // a rotation has removed it meanwhile
			return d.remove(tmp)
		}
		return err
	}
	if err := d.rename(tmp, name+gzSuffix); err != nil {
		return err
	}
	return d.remove(name)
}

// writeCompressed writes the compressed content of a file to another one.
func writeCompressed(to, from *os.File) error {
	z, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	_, err = io.Copy(z, from)
	if err := errors.Join(err, z.Close()); err != nil {
		return err
	}
	// The original is removed next: a power failure must not lose its content.
	return to.Sync()
}

// podLogs returns the files below a pod's log directory.
func podLogs(dir string, current map[string]bool) []logFile {
	var files []logFile
	for _, container := range subdirectories(dir) {
		path := filepath.Join(dir, container)
		d, err := openLogDir(path)
		if err != nil {
			continue
		}
		names, _ := d.names()
		for _, name := range names {
			file := filepath.Join(path, name)
			if st, err := d.stat(name); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
				files = append(files, logFile{path: file, size: st.Size, modified: time.Unix(st.Mtim.Unix()),
					current: current[file]})
			}
		}
		_ = d.Close()
	}
	return files
}

// removeLog removes a file of a container's log directory.
func removeLog(path string) error {
	d, err := openLogDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.remove(filepath.Base(path))
}
