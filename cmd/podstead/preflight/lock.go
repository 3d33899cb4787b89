package preflight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock is a file lock that is held until Close or the end of the process.
type Lock struct{ file *os.File }

// LockRoot creates the root directory if necessary (0750) and locks it. It never waits: a
// second daemon is an error.
func LockRoot(root string) (*Lock, error) {
	if err := os.MkdirAll(root, 0o750); err != nil {
		return nil, fmt.Errorf("failed to create --root-dir: %w", err)
	}
	path := filepath.Join(root, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("failed to open the lock of --root-dir: %w", err)
	}
	return lock(f, fmt.Sprintf("another podstead is running with --root-dir %s; stop it, or use another directory", root))
}

// cgroupLocks is the directory of the locks of cgroup roots. Like cgroups, its files do not
// survive a reboot.
const cgroupLocks = "/run/lock"

// LockCgroupRoot locks the parent cgroup of all pods: two daemons with the same one would
// remove each other's pods as orphans.
func LockCgroupRoot(root string) (*Lock, error) {
	path := filepath.Join(cgroupLocks, "podstead-cgroup"+strings.ReplaceAll(root, "/", "_"))
	if err := os.MkdirAll(cgroupLocks, 0o755); err != nil {
		return nil, fmt.Errorf("failed to create the lock of --cgroup-root: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("failed to open the lock of --cgroup-root: %w", err)
	}
	return lock(f, fmt.Sprintf("another podstead is running with --cgroup-root %s; stop it, or use another cgroup", root))
}

// lock locks an open file, or closes it. inUse is the error if it is locked already.
func lock(f *os.File, inUse string) (*Lock, error) {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.New(inUse)
		}
		return nil, fmt.Errorf("failed to lock %s: %w", f.Name(), err)
	}
	return &Lock{file: f}, nil
}

// Close releases the lock.
func (l *Lock) Close() error { return l.file.Close() }
