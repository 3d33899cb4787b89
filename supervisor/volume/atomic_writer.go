package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/fsgroup"
)

// Names in a volume of files, known to every program that watches such a volume for
// changes: the files are in a directory named by its creation time, dataLink points
// there, and each entry of the volume is a link through dataLink.
const (
	dataLink    = "..data"
	dataLinkNew = "..data_tmp"
	stampFormat = "..2006_01_02_15_04_05."
	filesMode   = 0o755
)

// writeFiles replaces the content of a volume by the given files. Readers see the old
// set or the new one, never a mixture. It reports whether anything was written.
func writeFiles(ctx context.Context, volume string, files payload, group fsgroup.Group) (bool, error) {
	for name := range files {
		if err := checkFileName(name); err != nil {
			return false, err
		}
	}
	current, err := os.Readlink(filepath.Join(volume, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if current != "" && hasFiles(filepath.Join(volume, current), files, group) {
		return false, updateEntries(volume, current, files)
	}
	newDir, err := writeNewDir(ctx, volume, files, group)
	if err != nil {
		return false, fmt.Errorf("failed to write the files: %w", err)
	}
	if err := replaceLink(volume, dataLink, dataLinkNew, newDir); err != nil {
		return false, err
	}
	return true, updateEntries(volume, newDir, files)
}

// checkFileName rejects a name that leads out of the volume, or that the writer
// itself uses.
func checkFileName(name string) error {
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, "..") {
		return fmt.Errorf("file %q: the path of a file must be relative and must not begin with \"..\"", name)
	}
	return nil
}

// hasFiles reports whether a directory has exactly the given files.
func hasFiles(dir string, files payload, group fsgroup.Group) bool {
	seen := 0
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		want, ok := files[name]
		if !ok || !want.matches(at, group) {
			return errors.New("differs")
		}
		seen++
		return nil
	})
	return err == nil && seen == len(files)
}

// matches reports whether the file on disk at a path is this one.
func (f file) matches(at string, group fsgroup.Group) bool {
	var st unix.Stat_t
	if unix.Lstat(at, &st) != nil || int64(st.Uid) != f.ownerID() || st.Mode != unix.S_IFREG|group.FileMode(f.mode) ||
		group.GID != nil && int64(st.Gid) != *group.GID {
		return false
	}
	data, err := boundedfile.Read(at, int64(len(f.data)))
	return err == nil && bytes.Equal(data, f.data)
}

// ownerID returns the user that owns the file, by default the daemon's.
func (f file) ownerID() int64 {
	if f.uid == nil {
		return int64(os.Geteuid())
	}
	return *f.uid
}

// writeNewDir creates a directory with the files and returns its name.
func writeNewDir(ctx context.Context, volume string, files payload, group fsgroup.Group) (name string, err error) {
	dir, err := os.MkdirTemp(volume, time.Now().UTC().Format(stampFormat))
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeTree(dir))
		}
	}()
	if err := os.Chmod(dir, filesMode); err != nil {
		return "", err
	}
	for name, f := range files {
		if err := writeFile(dir, name, f); err != nil {
			return "", err
		}
	}
	// The group gets read access only: the volume is read-only.
	group.RootMatch = false
	return filepath.Base(dir), group.Apply(ctx, dir, fsgroup.ReadOnly)
}

// writeFile creates one file with its parent directories. No mode depends on the
// umask.
func writeFile(dir, name string, f file) error {
	at := dir
	parents, base := path.Split(name)
	for parent := range strings.SplitSeq(strings.TrimSuffix(parents, "/"), "/") {
		if parent == "" {
			continue
		}
		at = filepath.Join(at, parent)
		err := os.Mkdir(at, filesMode)
		if err == nil {
			err = os.Chmod(at, filesMode)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	out, err := os.OpenFile(filepath.Join(at, base), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(f.data)
	if f.uid != nil {
		err = errors.Join(err, unix.Fchown(int(out.Fd()), int(*f.uid), -1))
	}
	return errors.Join(err, unix.Fchmod(int(out.Fd()), f.mode), out.Close())
}

// replaceLink creates a link atomically. It replaces what has its name: another link,
// or an empty directory that the mount of a subpath needed.
func replaceLink(dir, name, temporary, target string) error {
	if err := removeTree(filepath.Join(dir, temporary)); err != nil {
		return err
	}
	if err := os.Symlink(target, filepath.Join(dir, temporary)); err != nil {
		return err
	}
	err := os.Rename(filepath.Join(dir, temporary), filepath.Join(dir, name))
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EEXIST) {
		if err := removeTree(filepath.Join(dir, name)); err != nil {
			return err
		}
		err = os.Rename(filepath.Join(dir, temporary), filepath.Join(dir, name))
	}
	return err
}

// updateEntries makes the entries of the volume links to the current files, and
// removes all others.
func updateEntries(volume, current string, files payload) error {
	desired := map[string]string{}
	for name := range files {
		top, _, _ := strings.Cut(name, "/")
		desired[top] = path.Join(dataLink, top)
	}
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		if target, err := os.Readlink(filepath.Join(volume, name)); err == nil && target == desired[name] {
			continue
		}
		if err := replaceLink(volume, name, dataLinkNew, desired[name]); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(volume)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if _, ok := desired[name]; ok || name == dataLink || name == current {
			continue
		}
		// Remove links, old files and what a crash has left, but not the
		// directory that the mount of a subpath has created.
		if entry.IsDir() && !strings.HasPrefix(name, "..") {
			continue
		}
		if err := removeTree(filepath.Join(volume, name)); err != nil {
			return err
		}
	}
	return nil
}
