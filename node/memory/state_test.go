package memory

import (
	"log/slog"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestStateFile(t *testing.T) {
	start := func(dir string, disk statefile.Disk) (*Manager, error) {
		return Open(Config{
			Machine: two, Reserved: reserved, File: File(dir), BootID: "boot", Disk: disk, Requested: func(error) {},
			Log: slog.New(slog.DiscardHandler),
		})
	}
	statefiletest.Store{
		Files: []string{filepath.Base(File(""))}, Before: "memory_manager_state.before.json",
		After: "memory_manager_state.after.json",
		Old:   "default/a", New: "default/a, default/b", None: "", Rules: statefiletest.RulesOf(&stateFormat), Silent: true,
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			m, err := start(dir, disk)
			if err != nil {
				return "", err
			}
			return podNames(m.state.State), nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			m, err := start(dir, disk)
			if err != nil {
				return err
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.state.Assign("u2", podState{Name: "default/b", Containers: map[string]containerState{
				"main": {NUMANodes: []int{1}, Requested: Amounts{v1.ResourceMemory: gi}, Taken: Nodes{1: {v1.ResourceMemory: gi}}},
			}})
			m.state.Commit("u2")
			return nil
		},
	}.Run(t)
}
