package rollout

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wallclock"
)

// unreadableDisk is a disk whose reads fail, so often that it can be waited for or not.
type unreadableDisk struct {
	statefile.OS
	failures int
}

func (d *unreadableDisk) Read(path string, limit int64) ([]byte, error) {
	if d.failures > 0 {
		d.failures--
		return nil, &fs.PathError{Op: "read", Path: path, Err: syscall.EIO}
	}
	return d.OS.Read(path, limit)
}

// A file that cannot be read at the moment is read again; it is not taken for a damaged one.
func TestStoreThatCannotBeRead(t *testing.T) {
	for failures, want := range map[int]bool{3: true, 1000: false} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			s := New(Options{Dir: dir}).store
			r := newRevision(manifestPod("u1", tag))
			state := &storedRollout{Version: storeVersion, Namespace: "default", Name: "web-n1", Current: r.id}
			if err := s.write("default/web-n1", state, []*revision{r}, later); err != nil {
				t.Fatal(err)
			}
			disk := statefile.Disk{Operations: &unreadableDisk{failures: failures}}
			if found := New(Options{Dir: dir, Disk: disk}).store.load(); (found["default/web-n1"] != nil) != want {
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

// syncedDisk records the directories that were brought to the disk.
type syncedDisk struct {
	statefile.OS
	synced map[string]bool
}

func (d *syncedDisk) Sync(path string) error {
	d.synced[path] = true
	return d.OS.Sync(path)
}

// The count of boots is on the disk before a revision starts again that was never Ready: it may be
// what makes the host boot, without a chance to write anything. A good one needs no write.
func TestBootsAreCountedOnTheDisk(t *testing.T) {
	for _, good := range []bool{false, true} {
		dir := t.TempDir()
		disk := &syncedDisk{synced: map[string]bool{}}
		c := New(Options{Dir: dir, Disk: statefile.Disk{Operations: disk},
			Mark: func() (wallclock.Mark, bool) { return wallclock.Mark{Boot: "two"}, true }})
		pod := revisionPod("a", "")
		pod.Name = "web-n1"
		pod.Namespace = "default"
		rev := newRevision(pod)
		stored := &storedRollout{
			Version: storeVersion, Namespace: "default", Name: "web-n1", State: Progressing, Manifest: rev.id, Current: rev.id,
			Good:    good,
			Begun:   &beginning{Time: time.Now(), Mark: &wallclock.Mark{Boot: "one"}, Boots: 1},
			History: history(nil).withRevision(rev, time.Now()),
		}
		if err := c.store.write("default/web-n1", stored, []*revision{rev}, durably); err != nil {
			t.Fatal(err)
		}
		clear(disk.synced)
		r := &podRollout{name: "default/web-n1", manifest: pod}
		c.restore(r, stored)
		read := New(Options{Dir: dir}).store.load()["default/web-n1"]
		if read == nil {
			t.Fatal("there is no state")
		}
		if want := map[bool]int{false: 2, true: 1}[good]; read.Begun.Boots != want ||
			disk.synced[filepath.Join(dir, "default/web-n1")] == good {
			t.Errorf("good %v: %d boots are stored, want %d; on the disk: %v", good, read.Begun.Boots, want, disk.synced)
		}
	}
}
