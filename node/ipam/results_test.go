package ipam

import (
	"os"
	"path/filepath"
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
		return writeAt(t, filepath.Join(dir, name), content, at)
	}
	want := []string{write("podstead-1a-eth0", "", before), write("podstead-1a-lo", "", before)}
	kept := []string{write("podstead-2b-eth0", `{"kind":"cniCacheV1"}`, before), write("podstead-3c-eth0", "", after)}
	link := filepath.Join(dir, "podstead-4d-eth0")
	if err := os.Symlink(kept[0], link); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, link)

	expectRemoved(t, RemoveEmptyResults, dir, boot, want, kept)
}
