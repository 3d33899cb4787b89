package statefiletest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
)

// The disk tears what was not brought to it, and loses what its directory does not have.
func TestFaultyDisk(t *testing.T) {
	for f, want := range map[Fault]string{Killed: "new.", Torn: "old", Fails: "old", Full: "old", Cut: "ne", Lost: "old"} {
		root := t.TempDir()
		path := filepath.Join(root, "a")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := 4 // remove, create, write, rename
		if f == Torn {
			at = 3
		}
		err := statefile.Disk{Operations: New(root, f, at)}.Replace(path, []byte("new."), 0o600, statefile.Unsynced)
		if got, _ := os.ReadFile(path); string(got) != want || (err == nil) != (f == Killed || f == Cut || f == Lost) {
			t.Errorf("%s: %q, %v; want %q", f, got, err, want)
		}
	}
}
