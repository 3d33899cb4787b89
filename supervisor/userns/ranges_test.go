package userns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
)

func mustAllocate(t *testing.T, r *Ranges, uid string) uint32 {
	t.Helper()
	got, err := r.Allocate(types.UID(uid))
	if err != nil {
		t.Fatal(err)
	}
	if got.HostID%Length != 0 || got.HostID < first || got.HostID >= last {
		t.Fatalf("range at %d", got.HostID)
	}
	return got.HostID
}

func TestRangesAreKeptAndDiffer(t *testing.T) {
	dir := t.TempDir()
	r := New(filepath.Join(dir, "pods"), statefile.Disk{})
	seen := map[uint32]string{}
	for i := range 120 { // enough for hash collisions among 4095
		uid := fmt.Sprintf("pod-%d", i)
		id := mustAllocate(t, r, uid)
		if other := seen[id]; other != "" {
			t.Fatalf("%s and %s have the same range", uid, other)
		}
		seen[id] = uid
	}
	again := New(r.pods, statefile.Disk{})
	for id, uid := range seen {
		if got := mustAllocate(t, again, uid); got != id {
			t.Fatalf("%s had %d, and has %d after a restart", uid, id, got)
		}
	}
}

func TestRangesAtTheSameTime(t *testing.T) {
	r := New(t.TempDir(), statefile.Disk{})
	var mu sync.Mutex
	var all sync.WaitGroup
	seen := map[uint32]bool{}
	for i := range 50 {
		all.Go(func() {
			got, err := r.Allocate(types.UID(fmt.Sprint(i)))
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[got.HostID] {
				t.Errorf("%d: %v, %v", i, got, err)
			}
			seen[got.HostID] = true
		})
	}
	all.Wait()
}

// A pod whose first range is reserved gets another, and the first one again
// once that is free.
func TestRangeOfAPodThatIsGone(t *testing.T) {
	r := New(t.TempDir(), statefile.Disk{})
	own := mustAllocate(t, r, "a")
	if err := os.Rename(filepath.Join(r.pods, "a"), filepath.Join(r.pods, "b")); err != nil {
		t.Fatal(err)
	}
	if got := mustAllocate(t, r, "a"); got == own {
		t.Error("two pods have the same range")
	}
	for _, uid := range []string{"a", "b"} {
		if err := os.RemoveAll(filepath.Join(r.pods, uid)); err != nil {
			t.Fatal(err)
		}
	}
	if got := mustAllocate(t, r, "a"); got != own {
		t.Errorf("got %d, want %d", got, own)
	}
}

// An unreadable file must not release its range.
func TestDamagedFile(t *testing.T) {
	for _, text := range []string{"", "{}", `{"hostID": 70000}`, `{"hostID": 0}`, "x"} {
		r := New(t.TempDir(), statefile.Disk{})
		mustAllocate(t, r, "a")
		file := filepath.Join(r.pods, "a", fileName)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, uid := range []types.UID{"a", "b"} {
			if _, err := r.Allocate(uid); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("%q: %s got %v", text, uid, err)
			}
		}
	}
}
