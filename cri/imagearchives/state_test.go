package imagearchives

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestStateFile(t *testing.T) {
	open := func(t *testing.T, dir string, disk statefile.Disk) *Directory {
		return New(Config{Dir: t.TempDir(), File: filepath.Join(dir, "image-archives.json"), Disk: disk})
	}
	statefiletest.Store{
		Files: []string{"image-archives.json"}, Before: "image-archives.before.json", After: "image-archives.after.json",
		Old: "[a.tar]", New: "[a.tar b.tar]", None: "[]",
		Rules: statefiletest.RulesOf(&stateFormat), Silent: true,
		Read: func(t *testing.T, dir string, disk statefile.Disk) (string, error) {
			return fmt.Sprint(slices.Sorted(maps.Keys(open(t, dir, disk).files))), nil
		},
		Change: func(t *testing.T, dir string, disk statefile.Disk) error {
			d, name := open(t, dir, disk), "docker.io/library/b:1"
			d.mu.Lock()
			d.files["b.tar"] = &file{
				name: "b.tar", id: identity{Size: 5}, wasRead: true, digest: "db", images: map[string]imageDigests{name: {}},
				loaded: map[string]bool{name: true},
			}
			d.mu.Unlock()
			d.save()
			return nil
		},
	}.Run(t)
}
