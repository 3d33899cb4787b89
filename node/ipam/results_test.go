package ipam

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Only empty results of an earlier boot are removed.
func TestRemoveEmptyResults(t *testing.T) {
	dir := t.TempDir()
	boot := time.Now().Add(-time.Hour)
	before, after := boot.Add(-time.Minute), boot.Add(time.Minute)
	write := func(name, content string, at time.Time) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return path
	}
	want := []string{write("podstead-1a-eth0", "", before), write("podstead-1a-lo", "", before)}
	kept := []string{write("podstead-2b-eth0", `{"kind":"cniCacheV1"}`, before), write("podstead-3c-eth0", "", after)}
	link := filepath.Join(dir, "podstead-4d-eth0")
	if err := os.Symlink(kept[0], link); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, link)

	got, err := RemoveEmptyResults(dir, boot)
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
	if got, err := RemoveEmptyResults(filepath.Join(dir, "none"), boot); err != nil || len(got) > 0 {
		t.Errorf("a directory that does not exist: %v, %v", got, err)
	}
}
