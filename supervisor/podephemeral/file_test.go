package podephemeral

import (
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestFile(t *testing.T) {
	start := func(t *testing.T, dir string, disk statefile.Disk) *Store {
		s, err := Open(dir, disk, silent)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	statefiletest.Store{
		Files: []string{"u1.json"}, Before: "containers.before.json", After: "containers.after.json",
		Old: "a", New: "a b", None: "", Rules: statefiletest.RulesOf(&fileFormat),
		Read: func(t *testing.T, dir string, disk statefile.Disk) (string, error) {
			return namesOf(start(t, dir, disk).containersOf("u1")), nil
		},
		Change: func(t *testing.T, dir string, disk statefile.Disk) error {
			return start(t, dir, disk).Update("u1",
				func([]v1.EphemeralContainer) ([]v1.EphemeralContainer, error) { return named("a", "b"), nil })
		},
	}.Run(t)
}

// What was moved aside goes with its pod.
func TestMovedAsideIsRemoved(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/u1.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also by the next daemon
		s := open(t, dir, silent)
		if entries, _ := os.ReadDir(dir); len(entries) != 1 || entries[0].Name() != "u1.json.damaged" || len(s.UIDs()) > 0 {
			t.Errorf("there are %v, pods %v", entries, s.UIDs())
		}
	}
	if err := open(t, dir, silent).Remove("u1"); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("there are %v", entries)
	}
}
