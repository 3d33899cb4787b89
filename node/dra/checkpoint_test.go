package dra

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestCheckpointFile(t *testing.T) {
	start := func(dir string, disk statefile.Disk) *Manager {
		return New(Options{Checkpoint: filepath.Join(dir, "resource-claims.json"), Disk: disk})
	}
	statefiletest.Store{
		Files: []string{"resource-claims.json", "resource-claims.json.backup"}, Before: "resource-claims.before.json",
		After: "resource-claims.after.json",
		Old:   "[a]", New: "[a b]", None: "[]", Rules: statefiletest.RulesOf(&checkpointFormat),
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			m := start(dir, disk)
			// The daemon starts in any case; what it refuses is to prepare claims.
			_, err := m.file.Load()
			if !errors.Is(err, statefile.ErrNewer) {
				err = nil
			}
			var names []string
			for key := range m.claims {
				names = append(names, key.Name)
			}
			slices.Sort(names)
			return fmt.Sprint(names), err
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			m := start(dir, disk)
			c := newClaim(types.NamespacedName{Namespace: "default", Name: "b"}, "uid-b", []string{"gpu.example.com"})
			c.devices = []device{{Driver: "gpu.example.com", Pool: "n1", Device: "gpu-b", Requests: []string{"r"},
				CDI: []string{"example.com/gpu=b"}}}
			c.pods["pod-1"] = true
			m.claims[c.key] = c
			return m.save()
		},
	}.Run(t)
}
