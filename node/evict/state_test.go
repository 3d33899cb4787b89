package evict

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestStateFile(t *testing.T) {
	open := func(dir string, disk statefile.Disk) *savedState {
		return &savedState{file: stateFormat.File(filepath.Join(dir, "pressure.json"), disk), boot: "boot 1",
			log: slog.New(slog.DiscardHandler)}
	}
	store := statefiletest.Store{
		Files: []string{"pressure.json"}, Before: "pressure.before.json", After: "pressure.after.json",
		Old: "[MemoryPressure]", New: "[MemoryPressure DiskPressure]", None: "[]",
		Rules: statefiletest.RulesOf(&stateFormat), Silent: true,
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			list, _ := open(dir, disk).load()
			return fmt.Sprint(list), nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			open(dir, disk).save([]v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure})
			return nil
		},
	}
	store.Run(t)
	// Without a condition there is no file.
	store.After, store.New = "", "[]"
	store.Change = func(_ *testing.T, dir string, disk statefile.Disk) error {
		open(dir, disk).save(nil)
		return nil
	}
	t.Run("removal", store.Run)
}
