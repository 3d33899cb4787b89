package preflight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Lock holds the root folder for this daemon until it is closed or the process
// ends, however it ends.
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
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another podstead runs with --root-dir %s; stop it first, or give this one a folder of its own", root)
		}
		return nil, fmt.Errorf("cannot lock --root-dir %s: %w", root, err)
	}
	return &Lock{file: f}, nil
}

// Close gives the root folder free.
func (l *Lock) Close() error { return l.file.Close() }
