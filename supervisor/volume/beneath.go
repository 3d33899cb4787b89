package volume

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/fdpath"
)

// maxLinks limits the symbolic links in one path; it is the kernel's limit.
const maxLinks = 40

// errEscapes is the error for a path that leads out of its volume.
var errEscapes = errors.New("leads out of the volume")

// openBeneath opens a path below a directory, safely even if a container changes the
// path at the same time: each step starts from an open directory, and links are
// resolved here, never above the top. Absolute links lead out. The result is an O_PATH
// descriptor. If mode is not nil, missing directories are created with it.
//
// The kernel's openat2(RESOLVE_BENEATH) does the same since Linux 5.6; this
// works on every kernel and where a sandbox forbids that call.
func openBeneath(top, rel string, mode *uint32) (*os.File, error) {
	// The top itself may be a link: it is trusted, or a hostPath's.
	root, err := fdpath.Retry(func() (int, error) { return unix.Open(top, unix.O_PATH|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: top, Err: err}
	}
	w := walk{stack: []int{root}, mode: mode}
	defer w.close()
	if err := w.follow(rel); err != nil {
		return nil, fmt.Errorf("%s: %w", rel, err)
	}
	fd, err := unix.FcntlInt(uintptr(w.current()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path.Join(top, rel)), nil
}

// walk resolves a path. Its stack holds the open directories from the top to the
// current one, so that ".." needs no lookup in the file system.
type walk struct {
	stack []int
	links int
	mode  *uint32
}

func (w *walk) current() int { return w.stack[len(w.stack)-1] }

func (w *walk) close() {
	for _, fd := range w.stack {
		_ = unix.Close(fd)
	}
}

func (w *walk) follow(rel string) error {
	if strings.HasPrefix(rel, "/") {
		return errEscapes
	}
	for name := range strings.SplitSeq(rel, "/") {
		if err := w.step(name); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) step(name string) error {
	switch name {
	case "", ".":
		return nil
	case "..":
		if len(w.stack) == 1 {
			return errEscapes
		}
		_ = unix.Close(w.current())
		w.stack = w.stack[:len(w.stack)-1]
		return nil
	}
	fd, err := fdpath.Open(w.current(), name)
	if errors.Is(err, unix.ENOENT) && w.mode != nil {
		fd, err = w.mkdir(name)
	}
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		w.stack = append(w.stack, fd)
		return nil
	}
	target, err := readLink(fd)
	_ = unix.Close(fd)
	if err != nil {
		return err
	}
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	return w.follow(target)
}

// mkdir creates one directory and opens it. If another process was faster, what that
// has created keeps its mode.
func (w *walk) mkdir(name string) (int, error) {
	mkdirErr := unix.Mkdirat(w.current(), name, *w.mode&0o777)
	if mkdirErr != nil && !errors.Is(mkdirErr, unix.EEXIST) {
		return -1, mkdirErr
	}
	fd, err := fdpath.Open(w.current(), name)
	if err != nil || mkdirErr != nil {
		return fd, err
	}
	if err := completeMode(fd, *w.mode); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// completeMode gives a directory that was just created the bits of its mode that the
// umask has removed. What another process has put in its place is not changed.
func completeMode(fd int, mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	own := st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Geteuid()
	if got := st.Mode & 0o7777; !own || got == mode || got&^(mode|unix.S_ISGID) != 0 {
		return nil
	}
	return fdpath.Chmod(fd, mode)
}

// readLink reads the link of an O_PATH descriptor.
func readLink(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
