package filecopy

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// pack writes a file or directory as an archive in which it has the given name. Symlinks are
// kept.
func pack(w io.Writer, from, name string) error {
	t := tar.NewWriter(w)
	// If the argument itself is a symlink, its target is copied.
	root, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	err = filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		return packOne(t, p, path.Join(name, filepath.ToSlash(below)))
	})
	return errors.Join(err, t.Close())
}

func packOne(t *tar.Writer, file, name string) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	link := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	case !info.Mode().IsRegular() && !info.IsDir():
		return nil // sockets and devices are useless elsewhere
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	// Users of this machine do not exist in the container.
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	if info.IsDir() {
		h.Name += "/"
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyN(t, f, info.Size()); err != nil {
		return fmt.Errorf("%s changed while it was read: %w", file, err)
	}
	return nil
}

// unpack reads an archive of one file or directory and creates it under the name to. It
// never writes outside: everything goes through an os.Root of the parent directory, which
// follows no symlink out of it.
func unpack(r io.Reader, to string, warn func(format string, args ...any)) (err error) {
	root, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacker{root: root, name: filepath.Base(to), warn: warn}
	// Whatever the end, no link that leads outside is left behind.
	defer func() { err = errors.Join(err, u.checkLinks()) }()
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			// Padding may follow the end and must be consumed.
			_, err := io.Copy(io.Discard, r)
			return errors.Join(err, u.finish())
		}
		if err != nil {
			return err
		}
		if err := u.entry(h, t); err != nil {
			return err
		}
	}
}

type unpacker struct {
	root *os.Root
	name string
	warn func(format string, args ...any)
	// inner is the unpacked directory, nil for a single file. Symlinks in it may point
	// to other places in it.
	inner *os.Root
	// first is the name of the first entry, which contains all others.
	first string
	// dirs get their modes at the end, since a mode may forbid writing into them.
	dirs []tar.Header
	// links are the names of the created links in inner.
	links []string
}

// entry creates the file, directory or link of a header.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if u.first == "" {
		u.first = name
		return u.top(h, content)
	}
	below, ok := strings.CutPrefix(name, u.first+"/")
	if u.first == "." {
		below, ok = name, name != "."
	}
	if !ok || !filepath.IsLocal(below) || u.inner == nil {
		u.warn("skipping %q: not below %q", h.Name, u.first)
		return nil
	}
	return u.make(u.inner, below, h, content)
}

// top creates the file or directory that is copied itself.
func (u *unpacker) top(h *tar.Header, content io.Reader) error {
	if h.Typeflag != tar.TypeDir {
		return u.make(u.root, u.name, h, content)
	}
	if err := u.root.MkdirAll(u.name, 0o755); err != nil {
		return err
	}
	var err error
	u.inner, err = u.root.OpenRoot(u.name)
	u.dirs = append(u.dirs, tar.Header{Name: ".", Mode: h.Mode})
	return err
}

func (u *unpacker) make(in *os.Root, name string, h *tar.Header, content io.Reader) error {
	mode := fs.FileMode(h.Mode) & fs.ModePerm
	switch h.Typeflag {
	case tar.TypeDir:
		u.dirs = append(u.dirs, tar.Header{Name: name, Mode: h.Mode})
		return in.MkdirAll(name, 0o755)
	case tar.TypeReg:
		if isSparse(h) {
			break
		}
		return writeFile(in, name, mode, content)
	case tar.TypeSymlink:
		// A symlink to the outside is skipped: a later write through it would write
		// elsewhere.
		if in != u.inner || path.IsAbs(h.Linkname) || !filepath.IsLocal(path.Join(path.Dir(name), h.Linkname)) {
			u.warn("skipping %q: links to %q, outside the copied directory", h.Name, h.Linkname)
			return nil
		}
		_ = in.Remove(name)
		u.links = append(u.links, name)
		return in.Symlink(h.Linkname, name)
	case tar.TypeLink:
		target, ok := strings.CutPrefix(path.Clean(h.Linkname), u.first+"/")
		if !ok || !filepath.IsLocal(target) || in != u.inner {
			u.warn("skipping %q: links to %q, outside the copied directory", h.Name, h.Linkname)
			return nil
		}
		_ = in.Remove(name)
		// A hard link of a symlink leads elsewhere than the symlink.
		u.links = append(u.links, name)
		return in.Link(target, name)
	}
	u.warn("skipping %q: not a file, directory or link, or a sparse file", h.Name)
	return nil
}

// isSparse reports whether the holes of a file are not in the archive, so that a few bytes
// of it become a file of any size. tar in a container archives holes as zeros.
func isSparse(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// checkLinks removes the created symlinks that lead out of the copied directory. The targets
// were checked as texts; but a target that passes through another symlink, or a symlink in
// a directory that is one, leads elsewhere than its text reports.
func (u *unpacker) checkLinks() error {
	if u.inner == nil {
		return nil
	}
	defer u.inner.Close()
	var errs []error
	for _, name := range u.links {
		target, err := u.inner.Readlink(name)
		if err != nil {
			continue // a hard link of a file, or replaced by a later entry
		}
		// A Root resolves links as the kernel does, and fails at the first step outside.
		if _, err := u.inner.Stat(name); err == nil || errors.Is(err, fs.ErrNotExist) && plainTarget(target) {
			continue
		}
		u.warn("removing %q: links to %q, outside the copied directory or in a loop", name, target)
		errs = append(errs, u.inner.Remove(name))
	}
	return errors.Join(errs...)
}

// plainTarget reports whether the target of a symlink, which does not exist, leads up only at
// its beginning. Otherwise it may lead outside as soon as a part of it exists.
func plainTarget(target string) bool {
	names := false
	for part := range strings.SplitSeq(target, "/") {
		if part == ".." && names {
			return false
		}
		names = names || part != ".." && part != "." && part != ""
	}
	return true
}

// writeFile creates a file after removing an existing one, so that nothing is written
// through a symlink or into another hard link of it.
func writeFile(in *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	if info, err := in.Lstat(name); err == nil && !info.IsDir() {
		if err := in.Remove(name); err != nil {
			return err
		}
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := in.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	f, err := in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// finish sets the modes of the directories, the innermost first.
func (u *unpacker) finish() error {
	if u.first == "" {
		return errors.New("nothing was copied")
	}
	if u.inner == nil {
		return nil
	}
	for i := len(u.dirs) - 1; i >= 0; i-- {
		if err := u.inner.Chmod(u.dirs[i].Name, fs.FileMode(u.dirs[i].Mode)&fs.ModePerm); err != nil {
			return err
		}
	}
	return nil
}
