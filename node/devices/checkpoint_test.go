package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestCheckpointFile(t *testing.T) {
	start := func(dir string, disk statefile.Disk) *Manager {
		return New(Options{Dir: dir, Checkpoint: filepath.Join(dir, "devices.json"), Disk: disk})
	}
	statefiletest.Store{
		Files: []string{"devices.json", "devices.json.backup"}, Before: "devices.before.json", After: "devices.after.json",
		Old: "[u1] [example.com/x]", New: "[u1 u2] [example.com/x]", None: "[] []",
		Rules: statefiletest.RulesOf(&checkpointFormat),
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			m := start(dir, disk)
			// The daemon starts in any case; what it refuses is to give devices to a pod.
			_, err := m.store.file.Load()
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return fmt.Sprint(slices.Sorted(maps.Keys(m.pods)), slices.Sorted(maps.Keys(m.resources))), err
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			m := start(dir, disk)
			p := &podDevices{name: "default/db", containers: map[string]map[v1.ResourceName]*allocation{}}
			p.set("main", "example.com/x", &allocation{ids: []string{"b"}})
			m.pods["u2"] = p
			return m.save()
		},
	}.Run(t)
}
