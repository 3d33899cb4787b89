package volume

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A missing path is created below its nearest parent, which keeps its mode. A link that
// leads out of that parent is not followed: only an attack makes one there.
func TestHostPathCreatesBelowItsParent(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"parent", "victim"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "parent/a/b")
	if err := makeDir(path); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"parent": 0o700, "parent/a": 0o755, "parent/a/b": 0o755} {
		if m := permissions(t, filepath.Join(dir, name)); m != want {
			t.Errorf("%s has mode %o, want %o", name, m, want)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "victim/made"), filepath.Join(dir, "parent/link")); err != nil {
		t.Fatal(err)
	}
	if err := makeDir(filepath.Join(dir, "parent/link")); err == nil {
		t.Error("a dangling link was followed")
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "victim")); err != nil || len(entries) > 0 {
		t.Errorf("created %v, %v", entries, err)
	}
}

// A directory that another process creates at the same time keeps its mode.
func TestMkdirKeepsExisting(t *testing.T) {
	dir, mode := t.TempDir(), uint32(0o777)
	if err := os.Mkdir(filepath.Join(dir, "existing"), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := walk{stack: []int{root}, mode: &mode}
	defer w.close()
	fd, err := w.mkdir("existing")
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	if m := permissions(t, filepath.Join(dir, "existing")); m != 0o700 {
		t.Errorf("mode %o", m)
	}
}
