package edit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/fileaccess"
	"github.com/podstead/podstead/internal/filelock"
	"github.com/podstead/podstead/manifest"
)

// ErrChanged reports that a manifest is not what was read. Nothing of the change is lost, and
// nothing was written over it.
var ErrChanged = errors.New("has changed since it was read")

// ErrKept is wrapped, next to ErrChanged, by errors after which a content that another writer
// wrote is in a hidden file next to the manifest, as the error reports. The user must look at it: the
// change must not be tried again by a program.
var ErrKept = errors.New("another writer's content was kept")

// keptError is an error of the class ErrKept with its own text.
type keptError struct{ error }

func (e keptError) Is(target error) bool { return target == ErrKept }

func (e keptError) Unwrap() error { return e.error }

// keepText renames a temporary file, which the next change would remove, and returns its path.
func keepText(tmp string) string {
	saved := tmp + ".saved"
	if err := os.Rename(tmp, saved); err != nil {
		return tmp
	}
	return saved
}

const (
	// modeNew is the mode of a new manifest, modeSecret of one that gets a Secret, also if it
	// exists. The umask restricts them.
	modeNew, modeSecret = 0o644, 0o600
	// lockTimeout limits the wait for another writer, which writes a few files.
	lockTimeout = 10 * time.Second
	lockRetry   = 5 * time.Millisecond
)

// FileChange is a manifest with its content before and after; nil is no file.
type FileChange struct {
	Path          string
	Before, After []byte
}

// Changes returns the files that Commit writes or removes.
func (d *Directory) Changes() (all []FileChange) {
	for _, name := range d.names {
		if f := d.files[name]; (f.before == nil) != (f.after == nil) || !bytes.Equal(f.before, f.after) {
			all = append(all, FileChange{Path: name, Before: f.before, After: f.after})
		}
	}
	return all
}

// Commit writes the changed files and removes those without documents. Each file changes at
// once, and only if its content is still what was read: otherwise the error is ErrChanged. All
// files are compared before the first is written.
func (d *Directory) Commit(ctx context.Context) error {
	changes := d.Changes()
	if len(changes) == 0 {
		return nil
	}
	dir := d.path
	if d.single {
		dir = filepath.Dir(d.path)
	}
	unlock, err := lock(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	for _, c := range changes {
		if err := compare(c); err != nil {
			return err
		}
	}
	for i, c := range changes {
		if err := d.write(c); err != nil {
			if i > 0 {
				err = fmt.Errorf("%w (already written: %s)", err, changes[0].Path)
			}
			return err
		}
		d.files[c.Path].before = c.After
	}
	return syncDirectory(dir)
}

// lock keeps other writers of this package from a directory until unlock is called. Editors and
// other programs do not know the lock; exchange finds their changes.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := filelock.OpenFor(dir, "manifests")
	if err != nil {
		return nil, fmt.Errorf("failed to lock %s: %w", dir, err)
	}
	limited, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	if err := filelock.Acquire(limited, f, lockRetry); err != nil {
		_ = f.Close()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, filelock.ErrHeld):
			return nil, fmt.Errorf("another podstead holds the lock of %s (flock of %s) since %s; end it and try again", dir,
				f.Name(), lockTimeout)
		}
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// compare returns ErrChanged if a file is not what was read.
func compare(c FileChange) error {
	data, err := readIfThere(c.Path)
	switch {
	case err != nil:
		return err
	case (data == nil) != (c.Before == nil) || !bytes.Equal(data, c.Before):
		return fmt.Errorf("%s %w; nothing was written, try again", c.Path, ErrChanged)
	}
	return nil
}

// readIfThere returns the content of a file, nil if there is none.
func readIfThere(path string) ([]byte, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	data, fault := manifest.ReadFile(path)
	if fault != nil {
		return nil, *fault
	}
	return append([]byte{}, data...), nil
}

// write brings one file to its new content.
func (d *Directory) write(c FileChange) error {
	// The name is fixed, so that the next change removes what a crash left behind. The daemon
	// does not read hidden files.
	tmp := filepath.Join(filepath.Dir(c.Path), "."+filepath.Base(c.Path)+".podstead.tmp")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c.After == nil {
		return remove(c, tmp)
	}
	if err := writeTemporary(tmp, c, d.files[c.Path].secret); err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("failed to write %s: %w", c.Path, err)
	}
	if c.Before == nil {
		err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, c.Path, unix.RENAME_NOREPLACE)
		if isUnsupported(err) {
			if err = os.Link(tmp, c.Path); err == nil {
				return os.Remove(tmp)
			}
		}
		if err == nil {
			return nil
		}
		_ = os.Remove(tmp)
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%w: it exists now", ErrChanged)
		}
		return fmt.Errorf("failed to create %s: %w", c.Path, err)
	}
	return exchange(c, tmp)
}

// writeTemporary writes the new content with the mode, the owner and the extended attributes of
// the file that it replaces. With a Secret that this did not have, only its owner may read it.
func writeTemporary(tmp string, c FileChange, secret bool) (err error) {
	mode := os.FileMode(modeNew)
	if secret {
		mode = modeSecret
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if c.Before != nil {
		info, err := os.Lstat(c.Path)
		if err != nil {
			return err
		}
		if err := copyAccess(c.Path, f, info); err != nil {
			return err
		}
		if secret { // after an access control list, whose mask this restricts
			if err := f.Chmod(info.Mode() & modeSecret); err != nil {
				return err
			}
		}
	}
	if _, err := f.Write(c.After); err != nil {
		return err
	}
	return f.Sync()
}

// copyAccess gives a file the owner, the mode and the extended attributes of another one, such
// as access control lists.
func copyAccess(from string, to *os.File, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("no owner is known")
	}
	if err := to.Chown(int(st.Uid), int(st.Gid)); err != nil {
		return fmt.Errorf("its owner %d:%d cannot be kept: %w", st.Uid, st.Gid, err)
	}
	if err := to.Chmod(info.Mode()); err != nil {
		return err
	}
	names := make([]byte, 64<<10)
	n, err := unix.Llistxattr(from, names)
	if err != nil {
		return nil // the file system has none
	}
	for name := range bytes.SplitSeq(names[:n], []byte{0}) {
		if len(name) == 0 {
			continue
		}
		value := make([]byte, 64<<10)
		size, err := unix.Lgetxattr(from, string(name), value)
		if err == nil {
			err = unix.Fsetxattr(int(to.Fd()), string(name), value[:size], 0)
		}
		if err != nil && !errors.Is(err, unix.ENODATA) && !isUnsupported(err) {
			return fmt.Errorf("its attribute %s cannot be kept: %w", name, err)
		}
	}
	return nil
}

// exchange swaps the new content with the file, and compares what was there with what was read:
// an editor may have written it since. Then both are swapped back.
func exchange(c FileChange, tmp string) error {
	swap := func() error {
		return unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, c.Path, unix.RENAME_EXCHANGE)
	}
	err := swap()
	if isUnsupported(err) {
		// This file system cannot swap files. The content was compared just now.
		if err = compare(c); err == nil {
			err = os.Rename(tmp, c.Path)
		}
	}
	if err != nil {
		_ = os.Remove(tmp)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: it was removed", ErrChanged)
		}
		return fmt.Errorf("failed to write %s: %w", c.Path, err)
	}
	if _, err := os.Lstat(tmp); errors.Is(err, fs.ErrNotExist) {
		return nil // renamed, not swapped
	}
	there, err := readIfThere(tmp)
	if err == nil && bytes.Equal(there, c.Before) && !isBeingWritten(tmp) {
		return os.Remove(tmp)
	}
	return swapBack(c, tmp, swap)
}

// maxSwaps bounds how often a file is swapped back while an editor writes it again and again.
const maxSwaps = 100

// swapBack restores the content that an editor wrote between the comparison and the swap. What an
// editor writes meanwhile is newer and stays: each swap that does not return the content that the one
// before it has put there has taken away a newer one, which is swapped back in turn. Then an older
// content of the editor is left in tmp.
func swapBack(c FileChange, tmp string, swap func() error) error {
	put, known := c.After, true // what is expected to be there
	for n := range maxSwaps {
		back, readErr := readIfThere(tmp)
		if err := swap(); err != nil {
			return keptError{fmt.Errorf("%s %w, and its content is now in %s: %w", c.Path, ErrChanged, keepText(tmp), err)}
		}
		taken, err := readIfThere(tmp)
		switch {
		case err != nil || !known || !bytes.Equal(taken, put):
		case n == 0:
			return errors.Join(fmt.Errorf("%s %w; nothing was written, try again", c.Path, ErrChanged), os.Remove(tmp))
		default:
			return keptError{fmt.Errorf("%s %w twice; an earlier change is saved in %s", c.Path, ErrChanged, keepText(tmp))}
		}
		put, known = back, readErr == nil
	}
	return keptError{fmt.Errorf("%s %w again and again; a change of it is saved in %s", c.Path, ErrChanged, keepText(tmp))}
}

// remove removes a file if its content is what was read.
func remove(c FileChange, tmp string) error {
	if err := os.Rename(c.Path, tmp); err != nil {
		return fmt.Errorf("failed to remove %s: %w", c.Path, err)
	}
	there, err := readIfThere(tmp)
	if err == nil && bytes.Equal(there, c.Before) && !isBeingWritten(tmp) {
		return os.Remove(tmp)
	}
	err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, c.Path, unix.RENAME_NOREPLACE)
	if isUnsupported(err) {
		if err = os.Link(tmp, c.Path); err == nil {
			err = os.Remove(tmp)
		}
	}
	if err != nil {
		return keptError{fmt.Errorf("%s %w, and its content is now in %s: %w", c.Path, ErrChanged, keepText(tmp), err)}
	}
	return fmt.Errorf("%s %w; it was not removed, try again", c.Path, ErrChanged)
}

// isBeingWritten reports whether a program has a file open for writing: what it writes would be
// lost with the file.
func isBeingWritten(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return fileaccess.HasWriter(f)
}

// isUnsupported reports that a file system or kernel lacks an operation.
func isUnsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP)
}

func syncDirectory(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !isUnsupported(err) {
		return fmt.Errorf("failed to write %s to the disk: %w", dir, err)
	}
	return nil
}

// linksOf returns the number of hard links of a file.
func linksOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
