package cpus

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestStateFile(t *testing.T) {
	start := func(t *testing.T, dir string, disk statefile.Disk) (*Manager, error) {
		return Open(Config{
			Topology: eight.read(t), Reserved: set(t, "0"), File: File(dir), BootID: "boot", Disk: disk,
			Log: slog.New(slog.DiscardHandler),
		})
	}
	statefiletest.Store{
		Files: []string{filepath.Base(File(""))}, Before: "cpu_manager_state.before.json",
		After: "cpu_manager_state.after.json",
		Old:   "default/a (CPUs 1-2)", New: "default/a (CPUs 1-2), default/b (CPUs 3)", None: "",
		Rules: statefiletest.RulesOf(&stateFormat), Silent: true,
		Read: func(t *testing.T, dir string, disk statefile.Disk) (string, error) {
			m, err := start(t, dir, disk)
			if err != nil {
				return "", err
			}
			return podNames(m.state.State), nil
		},
		Change: func(t *testing.T, dir string, disk statefile.Disk) error {
			m, err := start(t, dir, disk)
			if err != nil {
				return err
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.state.Assign("u2", podState{Name: "default/b", Containers: map[string]Set{"main": set(t, "3")}})
			m.state.Commit("u2")
			return nil
		},
	}.Run(t)
}
