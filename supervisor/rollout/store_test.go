package rollout

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
)

// unreadableDisk is a disk whose reads fail, so often that it can be waited for or not.
type unreadableDisk struct {
	osDisk
	failures int
}

func (d *unreadableDisk) Read(path string) ([]byte, error) {
	if d.failures > 0 {
		d.failures--
		return nil, &fs.PathError{Op: "read", Path: path, Err: syscall.EIO}
	}
	return d.osDisk.Read(path)
}

// A file that cannot be read at the moment is read again; it is not taken for a damaged one.
func TestStoreThatCannotBeRead(t *testing.T) {
	for failures, want := range map[int]bool{3: true, 1000: false} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			s := New(Options{Dir: dir}).store
			s.has = map[string]bool{}
			r := newRevision(manifestPod("u1", tag))
			state := &storedRollout{Version: storeVersion, Namespace: "default", Name: "web-n1", Current: r.id}
			if err := s.write("default/web-n1", state, []*revision{r}, later); err != nil {
				t.Fatal(err)
			}
			s.disk = &unreadableDisk{failures: failures}
			if found := s.load(); (found["default/web-n1"] != nil) != want {
				t.Errorf("after %d failures: found %v", failures, found)
			}
			if _, err := os.Stat(filepath.Join(dir, "default/web-n1", stateFile)); err != nil {
				t.Errorf("after %d failures: %v", failures, err)
			}
		})
	}
}

// The rollouts of a root directory whose name has characters of patterns are found again.
func TestStoreInDirectoryWithBrackets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data[1]*")
	s := New(Options{Dir: dir}).store
	s.has = map[string]bool{}
	r := newRevision(manifestPod("u1", tag))
	state := &storedRollout{Version: storeVersion, Namespace: "default", Name: "web-n1", Current: r.id}
	if err := s.write("default/web-n1", state, []*revision{r}, later); err != nil {
		t.Fatal(err)
	}
	if found := New(Options{Dir: dir}).store.load(); found["default/web-n1"] == nil {
		t.Errorf("found %v", found)
	}
	if _, err := s.revision("default/web-n1", entry{Revision: r.id}); err != nil {
		t.Error(err)
	}
}
