package preflight

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestLockRootRejectsSecondDaemon(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "b")
	synctest.Test(t, func(t *testing.T) {
		first, err := LockRoot(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := LockRoot(t.Context(), root); err == nil ||
			!strings.Contains(err.Error(), "another podstead is running with --root-dir "+root) {
			t.Errorf("second LockRoot: %v", err)
		}
		if waited := time.Since(start); waited < lockWait || waited > lockWait+time.Second {
			t.Errorf("it was rejected after %v, want %v", waited, lockWait)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		second, err := LockRoot(t.Context(), root)
		if err != nil {
			t.Fatalf("after the first lock was released: %v", err)
		}
		_ = second.Close()
	})
}

// Two daemons never use the same directory of CSI volumes.
func TestLockVolumes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first, err := LockVolumes(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := LockVolumes(t.Context(), dir); err == nil ||
			!strings.Contains(err.Error(), "another podstead uses "+dir+" for CSI volumes") ||
			!strings.Contains(err.Error(), "--plugin-registration-dir") {
			t.Errorf("second LockVolumes: %v", err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		second, err := LockVolumes(t.Context(), dir)
		if err != nil {
			t.Fatalf("after the first lock was released: %v", err)
		}
		_ = second.Close()
	})
}

// A lock that any user can take on a directory stops no start.
func TestLockOfAnotherUserStopsNoStart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		theirs, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		if err := unix.Flock(int(theirs.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		for name, take := range map[string]func(context.Context, string) (*Lock, error){"root": LockRoot,
			"volumes": LockVolumes} {
			l, err := take(t.Context(), dir)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			_ = l.Close()
		}
	})
}

// A daemon that starts while its killed predecessor still has the lock takes it over.
func TestLockRootWaitsForAnEndingDaemon(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first, err := LockRoot(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { _ = first.Close() })
		second, err := LockRoot(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		_ = second.Close()
	})
}

// Earlier versions lock only the file: neither starts next to the other one.
func TestLockRootAgainstEarlierVersion(t *testing.T) {
	root := t.TempDir()
	// A backup or chmod -R may have changed the file.
	if err := os.WriteFile(filepath.Join(root, "lock"), nil, 0o640); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		old, err := os.OpenFile(filepath.Join(root, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(old.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		if _, err := LockRoot(t.Context(), root); err == nil {
			t.Error("started next to an earlier version")
		}
		_ = unix.Flock(int(old.Fd()), unix.LOCK_UN)
		own, err := LockRoot(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(old.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			t.Error("an earlier version can start next to this one")
		}
		_, _ = own.Close(), old.Close()
	})
}

// A root directory in which no file can be created is locked nevertheless.
func TestLockRootWithoutFile(t *testing.T) {
	root := t.TempDir()
	// A link is never followed, so that the file cannot be opened.
	if err := os.Symlink("/nonexistent", filepath.Join(root, "lock")); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		first, err := LockRoot(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		if _, err := LockRoot(t.Context(), root); err == nil {
			t.Error("a second daemon got the lock")
		}
	})
}

func TestLockCgroupRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		locks := cgroupLocks{own: filepath.Join(dir, "podstead"), shared: dir}
		first, warning, err := locks.lock(t.Context(), "/podstead")
		if err != nil || warning != "" {
			t.Fatal(err, warning)
		}
		if _, _, err := locks.lock(t.Context(), "/podstead"); err == nil ||
			!strings.Contains(err.Error(), "another podstead is running with --cgroup-root /podstead") {
			t.Errorf("second lock: %v", err)
		}
		other, _, err := locks.lock(t.Context(), "/other")
		if err != nil {
			t.Errorf("another root: %v", err)
		}
		// An earlier version does not start next to this one.
		old, err := os.OpenFile(filepath.Join(dir, "podstead-cgroup_podstead"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(old.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			t.Error("an earlier version can start next to this one")
		}
		_, _ = first.Close(), other.Close()
		// Nor this one next to it.
		if err := unix.Flock(int(old.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Fatal(err)
		}
		if _, _, err := locks.lock(t.Context(), "/podstead"); err == nil {
			t.Error("started next to an earlier version")
		}
		_ = old.Close()
	})
}

// What another user puts into the shared directory neither stops the start nor makes
// podstead create or open anything.
func TestLockCgroupRootIgnoresOtherUsers(t *testing.T) {
	for name, create := range map[string]func(path, dir string) error{
		"link to nothing": func(path, dir string) error { return os.Symlink(filepath.Join(dir, "created"), path) },
		"locked file": func(path, _ string) error {
			f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = f.Close() })
			return unix.Flock(int(f.Fd()), unix.LOCK_EX)
		},
		"hard link to a file of root": func(path, dir string) error {
			victim := filepath.Join(dir, "victim")
			if err := os.WriteFile(victim, nil, 0o600); err != nil {
				return err
			}
			return os.Link(victim, path)
		},
		"named pipe": func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := create(filepath.Join(dir, "podstead-cgroup_podstead"), dir); err != nil {
				t.Fatal(err)
			}
			l, warning, err := cgroupLocks{own: filepath.Join(dir, "own"), shared: dir}.lock(t.Context(), "/podstead")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if !strings.Contains(warning, "another user") {
				t.Errorf("warning %q", warning)
			}
			if _, err := os.Lstat(filepath.Join(dir, "created")); err == nil {
				t.Error("the target of the link was created")
			}
		})
	}
}

// A directory that others can write to is not used, but stops no start.
func TestLockCgroupRootWithUnsafeDirectory(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(own, 0o777); err != nil {
		t.Fatal(err)
	}
	l, warning, err := cgroupLocks{own: own, shared: dir}.lock(t.Context(), "/podstead")
	if err != nil || !strings.Contains(warning, own) {
		t.Fatalf("warning %q, error %v", warning, err)
	}
	_ = l.Close()
	if entries, _ := os.ReadDir(own); len(entries) != 0 {
		t.Errorf("created %v in it", entries)
	}
}
