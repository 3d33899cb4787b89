package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/retry"
)

// ErrUnsafe is wrapped by errors about a file or directory that another user controls.
var ErrUnsafe = errors.New("another user controls it")

// ErrHeld reports that another process holds the lock.
var ErrHeld = errors.New("another process holds the lock")

// Directory returns the directory of this user's locks. It need not exist.
func Directory() string {
	uid := os.Geteuid()
	if uid == 0 {
		return "/run/podstead"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "podstead")
	}
	return filepath.Join(os.TempDir(), "podstead-"+strconv.Itoa(uid))
}

// Open opens the lock file of this name in a directory of locks, and creates both if necessary.
// The error wraps ErrUnsafe if another user controls one of them.
func Open(directory, name string) (*os.File, error) {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Lstat(directory, &stat); err != nil {
		return nil, fmt.Errorf("failed to read %s: %w", directory, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || int(stat.Uid) != os.Geteuid() || stat.Mode&0o022 != 0 {
		return nil, fmt.Errorf("%s must be a directory that belongs to root and that only root can write to: %w; change "+
			"its owner and mode", directory, ErrUnsafe)
	}
	return OpenPrivate(filepath.Join(directory, name))
}

// OpenFor opens the lock file of an existing directory that others may be able to open, in the
// directory of this user's locks. Two paths of the same directory have the same lock; the purpose
// tells different locks of one directory apart.
func OpenFor(directory, purpose string) (*os.File, error) {
	var stat unix.Stat_t
	if err := unix.Stat(directory, &stat); err != nil {
		return nil, &os.PathError{Op: "stat", Path: directory, Err: err}
	}
	return Open(Directory(), fmt.Sprintf("%s-%x-%d.lock", purpose, stat.Dev, stat.Ino))
}

// OpenPrivate opens or creates a file with mode 0600. The error wraps ErrUnsafe if it is anything
// but a file with one name that only this user can open: others could hold a lock on it. The file
// is not open for writing, so that its file system can be remounted read-only.
func OpenPrivate(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	for errors.Is(err, os.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if !errors.Is(err, os.ErrExist) {
			break
		}
		// Another process was faster, or it is a link that leads nowhere.
		f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	}
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a link: %w", path, ErrUnsafe)
	}
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &stat)
	if err == nil && (stat.Mode&unix.S_IFMT != unix.S_IFREG || int(stat.Uid) != os.Geteuid() || stat.Mode&0o077 != 0 ||
		stat.Nlink != 1) {
		err = fmt.Errorf("%s: %w", path, ErrUnsafe)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Acquire locks an open file until it is closed or the process ends. It checks in intervals of
// poll until ctx ends, because a blocking flock could not be cancelled. The error is ErrHeld if
// another process held the lock all the time.
func Acquire(ctx context.Context, f *os.File, poll time.Duration) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("failed to lock %s: %w", f.Name(), err)
		}
		if !retry.Sleep(ctx, poll) {
			return ErrHeld
		}
	}
}
