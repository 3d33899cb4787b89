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

	"github.com/podstead/podstead/internal/filelock"
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
// The lock needs no space on the disk. The file "lock" in the directory is locked too, which is
// all that earlier versions lock, and all that a daemon in another container sees. If that file
// cannot be created, they cannot start either.
func LockRoot(ctx context.Context, root string) (*Lock, error) {
	if err := os.MkdirAll(root, 0o750); err != nil {
		return nil, fmt.Errorf("failed to create --root-dir: %w", err)
	}
	own, err := filelock.OpenFor(root, "root")
	if err != nil {
		return nil, fmt.Errorf("failed to lock --root-dir: %w", err)
	}
	files := []*os.File{own}
	// It is locked whatever its mode has become: only root can reach it in a directory of mode 0750. Not open for
	// writing, so that the file system can be remounted read-only.
	if file, err := os.OpenFile(filepath.Join(root, "lock"), os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o600); err == nil {
		files = append(files, file)
	}
	return lock(ctx, files,
		fmt.Sprintf("another podstead is running with --root-dir %s; stop it, or use another directory", root))
}

// LockVolumes locks the directory in which the volumes of CSI drivers are staged: two daemons with the same one would
// publish a volume twice that is for one pod, and neither would know of the other. It waits like LockRoot.
func LockVolumes(ctx context.Context, dir string) (*Lock, error) {
	f, err := filelock.OpenFor(dir, "volumes")
	if err != nil {
		return nil, fmt.Errorf("failed to lock the directory of CSI volumes: %w", err)
	}
	return lock(ctx, []*os.File{f}, fmt.Sprintf("another podstead uses %s for CSI volumes; stop it, or give another "+
		"directory with --plugin-registration-dir (pluginRegistrationDir), next to which they are", dir))
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
	return cgroupLocks{own: filelock.Directory(), shared: "/run/lock"}.lock(ctx, root)
}

func (c cgroupLocks) lock(ctx context.Context, root string) (*Lock, string, error) {
	name := "cgroup" + strings.ReplaceAll(root, "/", "_")
	var files []*os.File
	var warnings []string
	own, err := filelock.Open(c.own, name+".lock")
	if err == nil {
		files = append(files, own)
	} else {
		warnings = append(warnings, fmt.Sprintf("failed to open the lock of --cgroup-root, so that a second podstead with "+
			"the same cgroup may not be noticed: %v", err))
	}
	old, err := filelock.OpenPrivate(filepath.Join(c.shared, "podstead-"+name))
	switch {
	case err == nil:
		files = append(files, old)
	case errors.Is(err, filelock.ErrUnsafe):
		warnings = append(warnings, fmt.Sprintf("ignoring a lock file that another user created: %v", err))
	}
	l, err := lock(ctx, files, fmt.Sprintf("another podstead is running with --cgroup-root %s; stop it, or use another "+
		"cgroup", root))
	return l, strings.Join(warnings, "; "), err
}

// lock locks open files, or closes them. inUse is the error if one stays locked by another
// process.
func lock(ctx context.Context, files []*os.File, inUse string) (*Lock, error) {
	l := &Lock{files: files}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for _, f := range files {
		err := filelock.Acquire(ctx, f, lockPoll)
		if err == nil {
			continue
		}
		_ = l.Close()
		if errors.Is(err, filelock.ErrHeld) {
			return nil, errors.New(inUse)
		}
		return nil, err
	}
	return l, nil
}
