package ipam

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// writeAt writes a file that was modified at a time, and returns its path.
func writeAt(t *testing.T, path, content string, at time.Time) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	return path
}

// expectRemoved runs a function that removes files in dir, and checks that it removed these
// and kept those. A directory that does not exist has none.
func expectRemoved(t *testing.T, remove func(dir string, boot time.Time) ([]string, error), dir string, boot time.Time,
	want, kept []string) {
	t.Helper()
	got, err := remove(dir, boot)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("removed %v, %v, want %v", got, err, want)
	}
	for _, path := range want {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	for _, path := range kept {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	if got, err := remove(filepath.Join(dir, "none"), boot); got != nil || err != nil {
		t.Errorf("a missing directory: %v, %v", got, err)
	}
}
