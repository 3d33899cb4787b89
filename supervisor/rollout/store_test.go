package rollout

import (
	"path/filepath"
	"testing"
)

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
