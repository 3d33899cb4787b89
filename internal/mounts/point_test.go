package mounts_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/mounts"
)

func isPoint(t *testing.T, path string, want bool) {
	t.Helper()
	if got, err := mounts.IsMountPoint(path); err != nil || got != want {
		t.Errorf("%s: %v, %v, want %v", path, got, err, want)
	}
}

func TestIsMountPoint(t *testing.T) {
	dir := t.TempDir()
	isPoint(t, "/proc", true)
	isPoint(t, "/proc/self", false)
	isPoint(t, dir, false)
	if _, err := mounts.IsMountPoint(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	// A link to a mount point is none.
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/proc", link); err != nil {
		t.Fatal(err)
	}
	isPoint(t, link, false)
}

// What is mounted may be a directory of the same file system.
func TestIsMountPointOfABind(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "at")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	isPoint(t, at, false)
	if err := unix.Mount(t.TempDir(), at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	isPoint(t, at, true)
}
