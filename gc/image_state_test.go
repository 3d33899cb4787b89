package gc

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestImageRecordFile(t *testing.T) {
	open := func(dir string, disk statefile.Disk) *Images {
		return NewImages(ImagesConfig{File: filepath.Join(dir, "images.json"), Disk: disk, Runtime: "unix:///r"})
	}
	statefiletest.Store{
		Files: []string{"images.json"}, Before: "images.before.json", After: "images.after.json",
		Old: "[sha256:a] 1", New: "[sha256:a sha256:b] 1", None: "[] 0",
		Rules: statefiletest.RulesOf(&recordFormat), Silent: true,
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			r := open(dir, disk).record
			return fmt.Sprint(slices.Sorted(maps.Keys(r.Pulled)), len(r.Used)), nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			g, at := open(dir, disk), time.Date(2026, 5, 1, 12, 0, 0, 5, time.UTC)
			g.mu.Lock()
			defer g.mu.Unlock()
			// The clock of a test may be one that was not set yet.
			g.record = newRecord("unix:///r")
			g.record.Pulled["sha256:a"] = pulledImage{At: at, Refs: []string{"docker.io/library/a:1"}}
			g.record.Used["sha256:a"] = at
			g.record.Pulled["sha256:b"] = pulledImage{At: at.Add(time.Hour),
				Refs: []string{"docker.io/library/b:1", "r.test/b:2"}}
			g.save()
			return nil
		},
	}.Run(t)
}
