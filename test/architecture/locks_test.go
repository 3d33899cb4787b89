package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lockers are the files that call flock themselves. All others use internal/filelock: a lock on
// what others can open, if only for reading, is one that they can hold.
var lockers = map[string]string{
	"internal/filelock/filelock.go": "the locks of this project",
	"node/ipam/leases.go":           "the lock of the CNI plugin host-local, which is tried and not waited for",
}

func TestLocksAreFilesThatOnlyTheirUserCanOpen(t *testing.T) {
	cmd := exec.Command("git", "grep", "-lE", `\.Flock\(|F_(OFD_)?SETLKW?\b`, "--", "*.go", ":!*_test.go", ":!test")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range strings.Fields(string(out)) {
		found[file] = true
		if lockers[file] == "" {
			t.Errorf("%s locks a file itself; use internal/filelock", file)
		}
	}
	for file := range lockers {
		if _, err := os.Stat(filepath.Join("..", "..", file)); err != nil || !found[file] {
			t.Errorf("%s locks nothing; remove it from the table", file)
		}
	}
}
