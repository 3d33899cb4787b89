package rollout

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

// storedName is the pod of the test data, storedFirst and storedSecond are its revisions.
const storedName, storedFirst, storedSecond = "default/web-n1", "8d14e0fd65", "09b5288938"

// impatient returns a store that does not wait for a file that cannot be read.
func impatient(dir string, disk statefile.Disk) *store {
	s := newStore(dir, disk, slog.New(slog.DiscardHandler))
	s.patience = 0
	return s
}

// storedRevisionOf returns a revision of the test data.
func storedRevisionOf(name string) *revision {
	pod := revisionPod(name, "")
	pod.Namespace, pod.Name, _ = strings.Cut(storedName, "/")
	return newRevision(pod)
}

func TestStateFile(t *testing.T) {
	statefiletest.Store{
		Files: []string{storedName + "/state.json"}, Before: "state.before.json", After: "state.after.json",
		Other: map[string]string{storedName + "/" + storedFirst + ".json": "revision.before.json"},
		Old:   "Progressing 8d14e0fd65", New: "Undone 09b5288938 8d14e0fd65", None: "",
		Rules: statefiletest.RulesOf(&stateFormat),
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			s := impatient(dir, disk)
			state := s.load()[storedName]
			if state == nil {
				return "", nil
			}
			text := fmt.Sprint(state.State)
			for _, id := range []string{state.Current, state.LastGood} {
				if id == "" {
					continue
				}
				if _, err := s.revision(storedName, entry{Revision: id}); err != nil {
					return "", err
				}
				text += " " + id
			}
			return text, nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			s, at := impatient(dir, disk), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			first, second := storedRevisionOf("a"), storedRevisionOf("b")
			state := s.load()[storedName]
			if state == nil {
				state = &storedRollout{Version: storeVersion, Namespace: "default", Name: "web-n1"}
			}
			state.Manifest, state.Current, state.LastGood, state.State = second.id, second.id, first.id, Undone
			state.Since = at.Add(time.Hour)
			state.History = state.History.withRevision(second, at.Add(time.Hour), first.id)
			return s.write(storedName, state, []*revision{second, first}, durably)
		},
	}.Run(t)
}

func TestRevisionFile(t *testing.T) {
	path := func(id string) string { return storedName + "/" + id + ".json" }
	statefiletest.Store{
		Files: []string{path(storedFirst)}, Before: "revision.before.json",
		Other: map[string]string{storedName + "/state.json": "state.before.json"},
		Old:   storedFirst, New: storedFirst + " " + storedSecond, None: "",
		Rules: statefiletest.RulesOf(&revisionFormat),
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			var found []string
			for _, id := range []string{storedFirst, storedSecond} {
				if _, err := impatient(dir, disk).revision(storedName, entry{Revision: id}); err == nil {
					found = append(found, id)
				}
			}
			return strings.Join(found, " "), nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			s := impatient(dir, disk)
			state := s.load()[storedName]
			if state == nil {
				state = &storedRollout{Version: storeVersion, Namespace: "default", Name: "web-n1", Current: storedFirst}
			}
			return s.write(storedName, state, []*revision{storedRevisionOf("a"), storedRevisionOf("b")}, durably)
		},
	}.Run(t)
	// What is written is what a released podstead has written.
	dir := t.TempDir()
	state := &storedRollout{Version: storeVersion, Namespace: "default", Name: "web-n1", Current: storedFirst}
	err := impatient(dir, statefile.Disk{}).write(storedName, state, []*revision{storedRevisionOf("a"),
		storedRevisionOf("b")}, later)
	if err != nil {
		t.Fatal(err)
	}
	for id, name := range map[string]string{storedFirst: "revision.before.json", storedSecond: "revision.after.json"} {
		got, err := os.ReadFile(filepath.Join(dir, path(id)))
		if want, _ := os.ReadFile(filepath.Join("testdata", name)); err != nil || string(got) != string(want) {
			t.Errorf("revision %s is\n%s\n%v, want\n%s", id, got, err, want)
		}
	}
}

// A damaged revision goes with the others when the history does not have it any more, and with its pod.
func TestDamagedRevisionIsRemoved(t *testing.T) {
	dir := t.TempDir()
	s := impatient(dir, statefile.Disk{})
	first := storedRevisionOf("a")
	state := &storedRollout{Version: storeVersion, Namespace: "default", Name: "web-n1", Current: storedFirst}
	if err := s.write(storedName, state, []*revision{first}, later); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, storedName, "0123456789.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.revision(storedName, entry{Revision: "0123456789"}); err == nil {
		t.Error("a damaged revision is read")
	}
	if _, err := os.Stat(path + statefile.SuffixDamaged); err != nil {
		t.Error(err)
	}
	s.trim(storedName, history{}, []string{storedFirst})
	names := map[string]bool{}
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		names[e.Name()] = true
	}
	want := []string{storedFirst + ".json", stateFile}
	if got := slices.Sorted(maps.Keys(names)); err != nil || !slices.Equal(got, want) {
		t.Errorf("there are %q, %v", got, err)
	}
}
