package projectquota

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// An ID is free again if nothing has it after Assign has returned.
func TestIDIsFreeAgain(t *testing.T) {
	dir := t.TempDir()
	k := Kernel{ids{files: []string{filepath.Join(dir, "none")},
		usage: func(string, uint32) (idUsage, error) { return idUsage{}, nil }}}
	for range 3 {
		id, err := k.New(dir)
		if id != First || err != nil {
			t.Fatalf("got %d, %v", id, err)
		}
		if other, _ := k.New(dir); other != First+1 {
			t.Errorf("an ID that was given out is given out again: %d", other)
		}
		for _, id := range []uint32{First, First + 1} {
			if err := k.Assign(t.Context(), filepath.Join(dir, "none"), id); !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
	}
}

// What is mounted below a directory is not the directory's, also if it is of the same file system.
func TestMountIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"own", "mount", "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount := filepath.Join(dir, "mount")
	if err := unix.Mount(filepath.Join(dir, "other"), mount, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(mount, 0); err != nil {
			t.Error(err)
		}
	}()
	parent, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	for name, want := range map[string]error{"own": nil, "mount": unix.EXDEV, "none": unix.ENOENT} {
		fd, err := openEntry(int(parent.Fd()), name)
		if err == nil {
			_ = unix.Close(fd)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
