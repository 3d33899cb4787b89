package autoupdate

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

func TestRecordFile(t *testing.T) {
	open := func(dir string, disk statefile.Disk) *Updater {
		return New(Config{File: filepath.Join(dir, "autoupdate.json"), Disk: disk})
	}
	statefiletest.Store{
		Files: []string{"autoupdate.json"}, Before: "autoupdate.before.json", After: "autoupdate.after.json",
		Old: "[default/web-n1]", New: "[default/db-n1 default/web-n1]", None: "[]",
		Rules: statefiletest.RulesOf(&recordFormat), Silent: true,
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			return fmt.Sprint(slices.Sorted(maps.Keys(open(dir, disk).record.Pods))), nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			u := open(dir, disk)
			u.mu.Lock()
			defer u.mu.Unlock()
			u.record.Pods["default/db-n1"] = &podRecord{
				Manifest: "m2", Since: time.Date(2026, 5, 1, 12, 0, 0, 5, time.UTC), Pending: map[string]string{"db": "x"},
				Same: map[string]string{"a": "b"},
			}
			u.save()
			return nil
		},
	}.Run(t)
}
