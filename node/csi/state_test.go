package csi

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestStateFile(t *testing.T) {
	start := func(t *testing.T, dir string, disk statefile.Disk) *Manager {
		// A volume is mounted: what depends on the file is not known.
		root := t.TempDir()
		point := filepath.Join(root, "pods/u1/volumes/kubernetes.io~csi/h1/mount")
		mkdir(t, filepath.Join(root, "pods"))
		return New(Options{
			Dir: root, File: filepath.Join(dir, "csi-volumes.json"), BootID: "boot 1", Disk: disk,
			Mounts: func() ([]*mountinfo.Info, error) { return []*mountinfo.Info{{Mountpoint: point}}, nil },
		})
	}
	statefiletest.Store{
		Files: []string{"csi-volumes.json"}, Before: "csi-volumes.before.json", After: "csi-volumes.after.json",
		Old: "h1", New: "h1 h2", None: "", Rules: statefiletest.RulesOf(&stateFormat),
		Read: func(t *testing.T, dir string, disk statefile.Disk) (string, error) {
			m := start(t, dir, disk)
			m.mu.Lock()
			defer m.mu.Unlock()
			if err := m.load(); err != nil {
				return "", err
			}
			var handles []string
			for _, r := range m.state.Volumes {
				handles = append(handles, r.Handle)
			}
			return strings.Join(handles, " "), nil
		},
		Change: func(t *testing.T, dir string, disk statefile.Disk) error {
			m := start(t, dir, disk)
			return m.update(func() {
				m.state.Volumes = append(m.state.Volumes, &record{
					Driver: "csi.example.com", Handle: "h2", StagingPath: "/s/h2", Staged: true, Capacity: 1 << 30,
					Pods: []*podRecord{{UID: "u1", Name: "h2", Target: "/t/h2", Called: true, Published: true}},
				})
			})
		},
	}.Run(t)
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := (statefile.OS{}).MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// What is written is the whole record: a field that the copy forgets would be lost at the next start.
func TestSnapshotHasAllFields(t *testing.T) {
	m := New(Options{})
	m.state = &state{Version: stateVersion, BootID: "b", Volumes: []*record{{
		Driver: "d", Handle: "h", StagingPath: "s", Staged: true, Ephemeral: true, Capacity: 1, Stale: true,
		Pods: []*podRecord{{UID: "u", Name: "n", Target: "t", Called: true, Published: true}},
	}}}
	for _, v := range []any{*m.state.Volumes[0], *m.state.Volumes[0].Pods[0]} {
		for i := range reflect.TypeOf(v).NumField() {
			if f := reflect.TypeOf(v).Field(i); f.IsExported() && reflect.ValueOf(v).Field(i).IsZero() {
				t.Errorf("the test does not set %s", f.Name)
			}
		}
	}
	want, _ := json.Marshal(m.state)
	if got, _ := json.Marshal(m.snapshot()); string(got) != string(want) {
		t.Errorf("the copy is\n%s\nwant\n%s", got, want)
	}
}
