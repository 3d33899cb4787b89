package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockWait is how long a start waits for a lock: a daemon that was killed a moment ago
	// holds its locks until the kernel has ended the process.
	lockWait = 5 * time.Second
	lockPoll = 50 * time.Millisecond
)

// Lock is a lock on one or more files that is held until Close or the end of the process.
type Lock struct{ files []*os.File }

// Close releases the lock.
func (l *Lock) Close() error {
	var errs []error
	for _, f := range l.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// LockRoot creates the root directory if necessary (0750) and locks it. It waits a few
// seconds for a daemon that is ending; a daemon that keeps running is an error.
//
// The lock is on the directory itself, which needs no space on the disk, and on the file
// "lock" in it, which is all that earlier versions lock. If that file cannot be created, they
// cannot start either.
func LockRoot(ctx context.Context, root string) (*Lock, error) {
	if err := os.MkdirAll(root, 0o750); err != nil {
		return nil, fmt.Errorf("failed to create --root-dir: %w", err)
	}
	dir, err := os.OpenFile(root, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("failed to open --root-dir: %w", err)
	}
	files := []*os.File{dir}
	// Not open for writing, so that the file system can be remounted read-only.
	file, err := os.OpenFile(filepath.Join(root, "lock"), os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		files = append(files, file)
	}
	return lock(ctx, files, fmt.Sprintf("another podstead is running with --root-dir %s; stop it, or use another directory", root))
}

// LockVolumes locks the directory in which the volumes of CSI drivers are staged: two daemons with the same one would publish
// a volume twice that is for one pod, and neither would know of the other. It waits like LockRoot.
func LockVolumes(ctx context.Context, dir string) (*Lock, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("failed to open the directory of CSI volumes: %w", err)
	}
	return lock(ctx, []*os.File{f}, fmt.Sprintf("another podstead uses %s for CSI volumes; stop it, or give another directory with --plugin-registration-dir (pluginRegistrationDir), next to which they are", dir))
}

// cgroupLocks are the directories of the locks of cgroup roots. Like cgroups, their files do
// not survive a reboot.
type cgroupLocks struct {
	// own is podstead's own directory, which only its owner can write to.
	own string
	// shared is where earlier versions have their locks. Every user can create files there.
	shared string
}

// LockCgroupRoot locks the parent cgroup of all pods: two daemons with the same one would
// remove each other's pods as orphans. It waits like LockRoot. The warning, if not empty, is
// about a lock that could not be taken and without which the daemon can start.
func LockCgroupRoot(ctx context.Context, root string) (l *Lock, warning string, err error) {
	return cgroupLocks{own: "/run/podstead", shared: "/run/lock"}.lock(ctx, root)
}

func (c cgroupLocks) lock(ctx context.Context, root string) (*Lock, string, error) {
	name := "cgroup" + strings.ReplaceAll(root, "/", "_")
	var files []*os.File
	var warnings []string
	own, err := c.openOwn(name + ".lock")
	if err == nil {
		files = append(files, own)
	} else {
		warnings = append(warnings, fmt.Sprintf("failed to open the lock of --cgroup-root, so that a second podstead with the same cgroup may not be noticed: %v", err))
	}
	old, err := openPrivate(filepath.Join(c.shared, "podstead-"+name))
	switch {
	case err == nil:
		files = append(files, old)
	case errors.Is(err, errUnsafe):
		warnings = append(warnings, fmt.Sprintf("ignoring a lock file that another user created: %v", err))
	}
	l, err := lock(ctx, files, fmt.Sprintf("another podstead is running with --cgroup-root %s; stop it, or use another cgroup", root))
	return l, strings.Join(warnings, "; "), err
}

// errUnsafe marks a file or directory that another user controls.
var errUnsafe = errors.New("another user controls it")

// openOwn opens a file in podstead's own directory, and creates both if necessary.
func (c cgroupLocks) openOwn(name string) (*os.File, error) {
	if err := os.MkdirAll(c.own, 0o755); err != nil {
		return nil, err
	}
	var dir unix.Stat_t
	if err := unix.Lstat(c.own, &dir); err != nil {
		return nil, err
	}
	if dir.Mode&unix.S_IFMT != unix.S_IFDIR || int(dir.Uid) != os.Geteuid() || dir.Mode&0o022 != 0 {
		return nil, fmt.Errorf("%s must be a directory that belongs to root and that only root can write to: %w; change its owner and mode", c.own, errUnsafe)
	}
	return openPrivate(filepath.Join(c.own, name))
}

// openPrivate opens or creates a file with mode 0600. The error is errUnsafe if it is anything
// but a file with one name that only this user can open: others could hold a lock on it.
func openPrivate(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	}
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a link: %w", path, errUnsafe)
	}
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &stat)
	if err == nil && (stat.Mode&unix.S_IFMT != unix.S_IFREG || int(stat.Uid) != os.Geteuid() || stat.Mode&0o077 != 0 || stat.Nlink != 1) {
		err = fmt.Errorf("%s: %w", path, errUnsafe)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// lock locks open files, or closes them. inUse is the error if one stays locked by another
// process.
func lock(ctx context.Context, files []*os.File, inUse string) (*Lock, error) {
	l := &Lock{files: files}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for _, f := range files {
		err := flock(ctx, f)
		if err == nil {
			continue
		}
		_ = l.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.New(inUse)
		}
		return nil, fmt.Errorf("failed to lock %s: %w", f.Name(), err)
	}
	return l, nil
}

// flock polls for the lock until ctx ends: a blocking flock could not be cancelled.
func flock(ctx context.Context, f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lockPoll):
		}
	}
}
