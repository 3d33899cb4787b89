package filelock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A lock is held until its file is closed, and waited for until the context ends.
func TestAcquire(t *testing.T) {
	dir := t.TempDir()
	open := func() *os.File {
		t.Helper()
		f, err := Open(filepath.Join(dir, "locks"), "a.lock")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	synctest.Test(t, func(t *testing.T) {
		first, second := open(), open()
		defer second.Close()
		if err := Acquire(t.Context(), first, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Acquire(limited, second, time.Millisecond); !errors.Is(err, ErrHeld) {
			t.Errorf("a held lock: %v", err)
		}
		time.AfterFunc(time.Second, func() { _ = first.Close() })
		if err := Acquire(t.Context(), second, time.Millisecond); err != nil {
			t.Errorf("after the lock was released: %v", err)
		}
	})
}

// Two paths of a directory have one lock, two directories and two purposes have two. None of the
// lock files can be opened by other users.
func TestOpenFor(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir, other := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	name := func(dir, purpose string) string {
		t.Helper()
		f, err := OpenFor(dir, purpose)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info, err)
		}
		return f.Name()
	}
	first := name(dir, "test")
	if again := name(link, "test"); again != first {
		t.Errorf("%s and %s", first, again)
	}
	if name(other, "test") == first || name(dir, "test2") == first {
		t.Error("two locks have the same file")
	}
	if _, err := OpenFor(filepath.Join(dir, "none"), "test"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	for _, file := range []string{first, name(other, "test"), name(dir, "test2")} {
		_ = os.Remove(file)
	}
}

// What others can open, or have made, is no lock.
func TestOpenPrivateRejects(t *testing.T) {
	for what, create := range map[string]func(path, dir string) error{
		"link to nothing": func(path, dir string) error { return os.Symlink(filepath.Join(dir, "none"), path) },
		"readable file":   func(path, _ string) error { return os.WriteFile(path, nil, 0o644) },
		"named pipe":      func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"directory":       func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"two names": func(path, dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "victim"), nil, 0o600),
				os.Link(filepath.Join(dir, "victim"), path))
		},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "lock")
		if err := create(path, dir); err != nil {
			t.Fatal(err)
		}
		if f, err := OpenPrivate(path); err == nil || !errors.Is(err, ErrUnsafe) {
			t.Errorf("%s: %v", what, err)
			if f != nil {
				_ = f.Close()
			}
		}
	}
}
