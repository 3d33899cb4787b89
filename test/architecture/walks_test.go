package architecture

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// walkers are the files that walk directories themselves, and who fills these. What a container can write is walked by
// internal/treewalk: however deep or wide it is, that takes a fixed amount of memory and of descriptors.
var walkers = map[string]string{
	"cli/filecopy/tar.go":                      "a directory of the caller, with the caller's rights",
	"config/configfile/files.go":               "the drop-in files of the administrator",
	"internal/statefile/statefiletest/disk.go": "the directory of a test",
	"internal/treewalk/walk.go":                "the bounded walk",
	"node/cgroup/destroy.go":                   "cgroups, whose depth and number the kernel bounds",
	"node/plugins/watcher.go":                  "the directory in which drivers of root register",
	"node/stats/details.go":                    "the descriptors of a process in /proc, one level",
	"supervisor/volume/atomic_writer.go":       "files that podstead wrote for containers to read",
	"supervisor/volume/remove.go":              "a removal, which is bounded by moving deep directories up",
}

func TestWalksOfWhatContainersWriteAreBounded(t *testing.T) {
	cmd := exec.Command("git", "grep", "-lE", `(filepath|fs)\.Walk(Dir)?\(|\.Readdirnames\(`, "--", "*.go", ":!*_test.go",
		":!test", ":!build")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range strings.Fields(string(out)) {
		found[file] = true
		if walkers[file] == "" {
			t.Errorf("%s walks a directory itself; use internal/treewalk, or say in the table who fills it", file)
		}
	}
	for file := range walkers {
		if !found[file] {
			t.Errorf("%s walks nothing; remove it from the table", file)
		}
	}
}
