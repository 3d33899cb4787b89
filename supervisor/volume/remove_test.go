package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemoveTree(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	if err := os.MkdirAll(kept, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(kept, "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(dir, "tree")
	for i := range 300 {
		if err := os.MkdirAll(filepath.Join(tree, "many", string(rune('a'+i%26))+strings.Repeat("x", i%7)), 0o500); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(kept, filepath.Join(tree, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(tree, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(tree); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, dir); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
	if _, err := os.Stat(filepath.Join(kept, "data")); err != nil {
		t.Error("removed through a link")
	}
	if err := removeTree(tree); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	if err := removeTree(filepath.Join(tree, "below")); err != nil {
		t.Errorf("below a missing directory: %v", err)
	}
}

// A container can create a tree that is deeper than the limits of a path's
// length and of open descriptors.
func TestRemoveADeepTree(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 40)
	for range 4 * removeDepth {
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fd)
		fd = next
	}
	_ = unix.Close(fd)
	if err := removeTree(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}
