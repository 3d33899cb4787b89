package preflight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock holds something for this daemon until it is closed or the process ends,
// however it ends.
type Lock struct{ file *os.File }

// LockRoot makes the root folder if need be (0750) and takes its lock. It
// never waits: a second daemon is an error.
func LockRoot(root string) (*Lock, error) {
	if err := os.MkdirAll(root, 0o750); err != nil {
		return nil, fmt.Errorf("cannot make --root-dir: %w", err)
	}
	path := filepath.Join(root, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock of --root-dir: %w", err)
	}
	return lock(f, fmt.Sprintf("another podstead runs with --root-dir %s; stop it first, or give this one a folder of its own", root))
}

// cgroupLocks is where the locks of cgroup roots are. Those are the kernel's,
// and gone after a boot, as the folder's files are.
const cgroupLocks = "/run/lock"

// LockCgroupRoot takes a lock for the cgroup that all pods are below: two
// daemons would take each other's pods for remains.
func LockCgroupRoot(root string) (*Lock, error) {
	path := filepath.Join(cgroupLocks, "podstead-cgroup"+strings.ReplaceAll(root, "/", "_"))
	if err := os.MkdirAll(cgroupLocks, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the lock of --cgroup-root: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock of --cgroup-root: %w", err)
	}
	return lock(f, fmt.Sprintf("another podstead runs with --cgroup-root %s; stop it first, or give this one a root of its own", root))
}

// lock takes the lock of an open file, or closes it.
func lock(f *os.File, taken string) (*Lock, error) {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.New(taken)
		}
		return nil, fmt.Errorf("cannot lock %s: %w", f.Name(), err)
	}
	return &Lock{file: f}, nil
}

// Close gives it free.
func (l *Lock) Close() error { return l.file.Close() }
