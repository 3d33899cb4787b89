package volume

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
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
		if err := os.MkdirAll(filepath.Join(tree, "many", string(rune('a'+i%26))+strings.Repeat("x", i%7)),
			0o500); err != nil {
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

// deepTree makes directories, each in the one before it.
func deepTree(t *testing.T, dir, name string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
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
}

// A container can create a tree that is deeper than the limits of a path's
// length and of open descriptors. What a removal that was killed has left, or a
// container has made under its names, is removed too, and so is what an earlier
// version left next to the tree. Nothing is ever put there.
func TestRemoveADeepTree(t *testing.T) {
	for what, prepare := range map[string]func(t *testing.T, dir, tree string){
		"nothing is in the way": func(*testing.T, string, string) {},
		"a removal was killed": func(t *testing.T, _, tree string) {
			deepTree(t, tree, relocatedPrefix+"0", 1)
			deepTree(t, filepath.Join(tree, relocatedPrefix+"0"), "below", 3*removeDepth)
			deepTree(t, tree, relocatedPrefix+"2", 1)
		},
		"an earlier version was killed": func(t *testing.T, dir, _ string) {
			deepTree(t, dir, relocatedPrefix+"0", 3*removeDepth)
			deepTree(t, dir, relocatedPrefix+"1", 2)
		},
		"a container has made a file of that name": func(t *testing.T, _, tree string) {
			if err := os.WriteFile(filepath.Join(tree, relocatedPrefix+"0"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir, name := t.TempDir(), strings.Repeat("d", 40)
			deepTree(t, dir, name, 40*removeDepth)
			prepare(t, dir, filepath.Join(dir, name))
			if err := removeTree(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if got := listed(t, dir); len(got) != 0 {
				t.Errorf("left: %v", got)
			}
		})
	}
}

// Two trees in one directory are removed at the same time, as those of two pods are.
func TestRemoveDeepTreesAtOnce(t *testing.T) {
	dir := t.TempDir()
	names := []string{"a", "b", "c"}
	for _, name := range names {
		deepTree(t, dir, name, 10*removeDepth)
	}
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			if err := removeTree(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := listed(t, dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}
