package volume

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links one path may lead through, as in the
// kernel.
const maxLinks = 40

// errEscapes is said of a path that leads out of its volume.
var errEscapes = errors.New("leads out of the volume")

// openBeneath opens a path below a folder, whatever a container does to it
// meanwhile: each step is made from a folder that is held open, and links are
// followed by hand, never up beyond the top. Absolute links lead out. The
// result is an O_PATH descriptor. With a mode, missing folders on the way are
// made with it.
//
// The kernel's openat2(RESOLVE_BENEATH) does the same since Linux 5.6; this
// works on every kernel and where a sandbox forbids that call.
func openBeneath(top, rel string, mode *uint32) (*os.File, error) {
	// The top itself may be a link: it is ours, or a hostPath's.
	root, err := retry(func() (int, error) { return unix.Open(top, unix.O_PATH|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: top, Err: err}
	}
	w := walk{stack: []int{root}, mode: mode}
	defer w.close()
	if err := w.follow(rel); err != nil {
		return nil, fmt.Errorf("%s: %w", rel, err)
	}
	fd, err := unix.FcntlInt(uintptr(w.here()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path.Join(top, rel)), nil
}

// openPath opens a name without following it if it is a link.
func openPath(dir int, name string) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

// walk is a path that is being followed. Its stack holds the folders from the
// top to where it is, so that ".." never asks the file system.
type walk struct {
	stack []int
	links int
	mode  *uint32
}

func (w *walk) here() int { return w.stack[len(w.stack)-1] }

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
		_ = unix.Close(w.here())
		w.stack = w.stack[:len(w.stack)-1]
		return nil
	}
	fd, err := openPath(w.here(), name)
	if errors.Is(err, unix.ENOENT) && w.mode != nil {
		fd, err = w.make(name)
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

// make makes one folder and opens it.
func (w *walk) make(name string) (int, error) {
	if err := unix.Mkdirat(w.here(), name, *w.mode&0o777); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	fd, err := openPath(w.here(), name)
	if err != nil {
		return -1, err
	}
	// The umask took a part of the mode.
	if err := chmodFd(fd, *w.mode); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// chmodFd sets the mode of what an O_PATH descriptor holds. fchmod(2) refuses
// those; the path in /proc leads to the very file.
func chmodFd(fd int, mode uint32) error {
	return unix.Chmod(fdPath(fd), mode)
}

// fdPath is a path to what a descriptor of this process holds.
func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// readLink reads the link that an O_PATH descriptor holds.
func readLink(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// retry repeats what a signal interrupted.
func retry[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}
