package gc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/pullrecords"
	"github.com/podstead/podstead/internal/statefile"
)

// store is a runtime's images on a disk of a thousand bytes.
type store struct {
	world
	mu       sync.Mutex
	images   []cri.StoredImage
	users    []string
	sandbox  string
	refuses  map[string]bool
	other    uint64 // bytes that are no images
	removals []string
	lists    int
	// late: the runtime gives room back later.
	late bool
}

func (s *store) StoredImages(context.Context) ([]cri.StoredImage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	return slices.Clone(s.images), nil
}

func (s *store) StoredImage(_ context.Context, ref string) (cri.StoredImage, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.images {
		if slices.Contains(i.Tags, fullName(ref)) {
			return i, true, nil
		}
	}
	return cri.StoredImage{}, false, nil
}

func (s *store) ImagesInUse(context.Context) ([]string, error) { return s.users, nil }
func (s *store) SandboxImage(context.Context) (string, error)  { return s.sandbox, nil }
func (s *store) ImageMount(context.Context) (string, error)    { return "/images", nil }

func (s *store) RemoveImage(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses[id] {
		return errors.New("it is stuck")
	}
	s.removals = append(s.removals, id)
	if s.late {
		for i := range s.images {
			if s.images[i].ID == id {
				s.other += s.images[i].Size
			}
		}
	}
	s.images = slices.DeleteFunc(s.images, func(i cri.StoredImage) bool { return i.ID == id })
	return nil
}

func (s *store) room(mount string) (uint64, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.other
	for _, i := range s.images {
		used += i.Size
	}
	return 1000, 1000 - used, nil
}

func (s *store) add(name string, size uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images = append(s.images, cri.StoredImage{ID: "sha256:" + name, Tags: []string{"docker.io/library/" + name + ":1"},
		Size: size})
}

func (s *store) gone() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(strings.Join(s.removals, " "), "sha256:", "")
}

// keeper is a collector of s's images that wants some of them.
func keeper(t *testing.T, s *store, p ImagePolicy, file string, desired ...string) *Images {
	t.Helper()
	s.at = time.Now()
	return NewImages(ImagesConfig{
		Policy: p, Store: s, Runtime: "unix:///r", Observed: s.Observed, Desired: func() []string { return desired },
		File: file, Events: s, Statfs: s.room,
	})
}

// pull has the collector know of images that this podstead pulled.
func pull(g *Images, s *store, size uint64, names ...string) {
	for _, name := range names {
		s.add(name, size)
		g.Pulled(context.Background(), name+":1", "")
		time.Sleep(time.Minute)
	}
}

// use has a container of ours use an image, and nothing else be used.
func use(g *Images, s *store, names ...string) {
	pod := &cri.Pod{UID: "p"}
	for _, name := range names {
		pod.Containers = append(pod.Containers, cri.Container{ID: name, Name: name, ImageRef: "sha256:" + name})
	}
	s.set(pod)
	g.recordUse(s.Observed())
	time.Sleep(time.Minute)
}

func TestLeastRecentlyUsedImagesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		file := filepath.Join(t.TempDir(), "images.json")
		p := ImagePolicy{High: 85, Low: 60, MinAge: 2 * time.Minute}
		g := keeper(t, s, p, file)
		pull(g, s, 150, "a", "b", "c", "d", "e")
		use(g, s, "b")
		use(g, s, "a")
		use(g, s, "e")
		use(g, s)
		if g.tick(t.Context()); s.gone() != "" || s.lists > 0 {
			t.Fatalf("75%% used: removed %q with %d lists", s.gone(), s.lists)
		}
		s.other = 150 // 90 %
		// The knowledge is that of an earlier daemon.
		g = keeper(t, s, p, file)
		g.tick(t.Context())
		// c and d were never used. Two make 60 %.
		if got := s.gone(); got != "c d" {
			t.Errorf("removed %q", got)
		}
		s.other = 450
		g.tick(t.Context())
		if got := s.gone(); got != "c d b a" {
			t.Errorf("then removed %q", got)
		}
		if len(s.eventTexts()) != 0 {
			t.Errorf("events %q", s.eventTexts())
		}
	})
}

func TestLateFreedSpaceRemovesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{late: true, other: 300}
		g := keeper(t, s, ImagePolicy{High: 85, Low: 80}, filepath.Join(t.TempDir(), "images.json"))
		pull(g, s, 150, "a", "b", "c", "d")
		g.tick(t.Context())
		if got := s.gone(); got != "a" {
			t.Errorf("removed %q", got)
		}
	})
}

func TestKeptImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{other: 890, sandbox: "pause:1", refuses: map[string]bool{"sha256:stuck": true}}
		g := keeper(t, s, ImagePolicy{High: 85, Low: 10, MinAge: 2 * time.Minute}, filepath.Join(t.TempDir(), "images.json"),
			"wanted:1",
			"docker.io/library/bydigest@sha256:"+strings.Repeat("0", 64), "tagdigest:1@sha256:"+strings.Repeat("1", 64))
		s.add("theirs", 1)
		pull(g, s, 1, "gone", "wanted", "ownuse", "theiruse", "pause", "pinned", "stuck", "shared", "last", "bydigest",
			"tagdigest")
		// Another client pulled it before we asked for it.
		s.add("loaded", 1)
		g.Pulled(t.Context(), "loaded:1", "sha256:loaded")
		for i := range s.images {
			switch s.images[i].ID {
			case "sha256:pinned":
				s.images[i].Pinned = true
			case "sha256:shared":
				s.images[i].Tags = append(s.images[i].Tags, "example.com/theirs:1")
			case "sha256:bydigest":
				s.images[i].Tags = nil
				s.images[i].Digests = []string{"docker.io/library/bydigest@sha256:" + strings.Repeat("0", 64)}
			case "sha256:tagdigest": // the digest decides, and the runtime has no tag
				s.images[i].Tags = nil
				s.images[i].Digests = []string{"docker.io/library/tagdigest@sha256:" + strings.Repeat("1", 64)}
			}
		}
		s.users = []string{"", "sha256:ownuse", "docker.io/library/theiruse:1"}
		time.Sleep(time.Hour)
		pull(g, s, 1, "young")
		g.tick(t.Context())
		if got := s.gone(); got != "gone last" {
			t.Errorf("removed %q", got)
		}
		images, err := g.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		states := map[string]ImageState{}
		for _, i := range images {
			states[strings.TrimPrefix(i.ID, "sha256:")] = i.State
		}
		want := map[string]ImageState{
			"bydigest": ImageDesired, "tagdigest": ImageDesired, "theirs": ImageForeign, "loaded": ImageForeign,
			"shared": ImageForeign, "wanted": ImageDesired, "ownuse": ImageInUse,
			"theiruse": ImageInUse, "pause": ImageSandbox, "pinned": ImagePinned, "stuck": ImageUnused, "young": ImageUnused,
		}
		if fmt.Sprint(states) != fmt.Sprint(want) {
			t.Errorf("states %v\nwant   %v", states, want)
		}
		if len(s.eventTexts()) != 1 || !strings.Contains(s.eventTexts()[0], "true Warning FreeDiskSpaceFailed: /images") {
			t.Errorf("events %q", s.eventTexts())
		}
		// The one that is stuck is reported when it happens again.
		g.tick(t.Context())
		if !slices.ContainsFunc(s.eventTexts(), func(e string) bool {
			return strings.Contains(e, "ImageGCFailed: failed to remove image docker.io/library/stuck:1: it is stuck")
		}) {
			t.Errorf("events %q", s.eventTexts())
		}
	})
}

func TestImagesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		g := keeper(t, s, ImagePolicy{High: 100, Low: 80, MaxAge: 24 * time.Hour}, filepath.Join(t.TempDir(), "images.json"))
		pull(g, s, 1, "a", "b")
		time.Sleep(20 * time.Hour)
		use(g, s, "b")
		use(g, s)
		time.Sleep(5 * time.Hour)
		g.tick(t.Context())
		if got := s.gone(); got != "a" {
			t.Errorf("removed %q", got)
		}
		// A clock that is set back expires nothing more.
		g.record.Pulled["sha256:b"] = pulledImage{At: time.Now().Add(1000 * time.Hour),
			Refs: []string{"docker.io/library/b:1"}}
		g.tick(t.Context())
		if got := s.gone(); got != "a" {
			t.Errorf("removed %q", got)
		}
	})
}

func TestPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{refuses: map[string]bool{"sha256:b": true}}
		g := keeper(t, s, ImagePolicy{High: 85, Low: 80}, filepath.Join(t.TempDir(), "images.json"), "d:1")
		pull(g, s, 1, "a", "b", "c", "d")
		for _, dryRun := range []bool{true, false} {
			list, err := g.Prune(t.Context(), dryRun)
			var got []string
			for _, r := range list {
				got = append(got, fmt.Sprint(r.Image.Name(), " ", r.Err != nil))
			}
			want := "docker.io/library/a:1 false,docker.io/library/b:1 " + fmt.Sprint(!dryRun) + ",docker.io/library/c:1 false"
			if err != nil || strings.Join(got, ",") != want {
				t.Errorf("dry run %t: %q %v", dryRun, got, err)
			}
			if removed := s.gone(); dryRun && removed != "" || !dryRun && removed != "a c" {
				t.Errorf("dry run %t removed %q", dryRun, removed)
			}
		}
	})
}

func TestReclaimReturnsFreedBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{refuses: map[string]bool{"sha256:b": true}}
		g := keeper(t, s, ImagePolicy{High: 100}, filepath.Join(t.TempDir(), "images.json"), "d:1")
		pull(g, s, 10, "a", "b", "c", "d")
		freed, err := g.Reclaim(t.Context())
		if freed != 20 || err == nil || !strings.Contains(err.Error(), "library/b:1: it is stuck") || s.gone() != "a c" {
			t.Errorf("%d bytes of %q were freed: %v", freed, s.gone(), err)
		}
	})
}

// A disk that is full when the daemon comes up costs no image of a manifest that
// has not been read yet.
func TestReclaimWaitsForManifests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		g := keeper(t, s, ImagePolicy{High: 85, Low: 80}, filepath.Join(t.TempDir(), "images.json"))
		pull(g, s, 1, "a", "b")
		var desired []string
		g.cfg.Desired = func() []string { return desired }
		g.cfg.WaitForSources = func(context.Context) { desired = []string{"b:1"} }
		if freed, err := g.Reclaim(t.Context()); freed != 1 || err != nil || s.gone() != "a" {
			t.Errorf("%d bytes of %q were freed: %v", freed, s.gone(), err)
		}
	})
}

func TestDamagedImageRecordRemovesNothing(t *testing.T) {
	for name, text := range map[string]string{"torn": `{"version":1,"pul`,
		"another version":   `{"version":9,"runtime":"unix:///r","pulled":{"sha256:a":{}},"used":{}}`,
		"another runtime's": `{"version":1,"runtime":"unix:///x","pulled":{"sha256:a":{"refs":["docker.io/library/a:1"]}},"used":{}}`, "null": "null"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "images.json")
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				s := &store{other: 900}
				s.add("a", 1)
				g := keeper(t, s, ImagePolicy{High: 85, Low: 80}, file)
				g.tick(t.Context())
				if got := s.gone(); got != "" {
					t.Errorf("removed %q", got)
				}
				pull(g, s, 1, "b")
				g = keeper(t, s, ImagePolicy{High: 85, Low: 80}, file)
				if _, ok := g.record.Pulled["sha256:b"]; !ok {
					t.Errorf("what was pulled since is not kept: %+v", g.record)
				}
			})
		})
	}
}

// The record is written when a use begins or ends, not while it goes on, and
// does not grow with what is long gone.
func TestImageRecordIsRarelyWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		file := filepath.Join(t.TempDir(), "sub", "images.json")
		g := keeper(t, s, ImagePolicy{High: 85, Low: 80}, file)
		pull(g, s, 1, "a", "b")
		use(g, s, "a")
		before, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			use(g, s, "a")
		}
		if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
			t.Errorf("it is written while nothing changes: %v", err)
		}
		s.images = s.images[:1]
		use(g, s)
		time.Sleep(48 * time.Hour)
		if _, err := g.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		record, err := loadRecord(recordFormat.File(file, statefile.Disk{}), "unix:///r")
		if err != nil || len(record.Pulled) != 1 || len(record.Used) != 1 || record.Used["sha256:a"].IsZero() {
			t.Errorf("the record is %+v %v", record, err)
		}
	})
}

// The records of credentials end with their images, whatever removes them.
func TestPullRecordsEndWithTheirImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := &store{}, t.TempDir()
		g := keeper(t, s, ImagePolicy{High: 85, Low: 60}, filepath.Join(dir, "images.json"))
		g.cfg.Pulls = pullrecords.Open(pullrecords.Config{Dir: dir, Images: noImages{}})
		for _, name := range []string{"a", "b", "c"} {
			pull(g, s, 10, name)
			p, err := g.cfg.Pulls.Begin(t.Context(), name+":1")
			if err != nil {
				t.Fatal(err)
			}
			// The records accept only real IDs.
			s.images[len(s.images)-1].ID = "sha256:" + strings.Repeat(name, 64)
			p.Succeeded(t.Context(), s.images[len(s.images)-1].ID, pullrecords.Credential{})
		}
		stored := func() string {
			entries, err := os.ReadDir(filepath.Join(dir, "pulled"))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, e := range entries {
				names = append(names, e.Name()[:1])
			}
			return strings.Join(names, " ")
		}
		if got := stored(); got != "a b c" {
			t.Fatalf("records %q", got)
		}
		s.images = slices.Delete(s.images, 0, 1) // by another client
		if _, err := g.List(t.Context()); err != nil || stored() != "b c" {
			t.Errorf("records %q (%v)", stored(), err)
		}
		if err := g.remove(t.Context(), &Image{StoredImage: s.images[0]}, removedSpace); err != nil || stored() != "c" {
			t.Errorf("records %q (%v)", stored(), err)
		}
	})
}

// An image that is pulled again while it is removed keeps its record.
func TestImagePulledAgainDuringItsRemoval(t *testing.T) {
	s, dir := &store{}, t.TempDir()
	g := keeper(t, s, ImagePolicy{High: 85, Low: 60}, filepath.Join(dir, "images.json"))
	g.cfg.Pulls = pullrecords.Open(pullrecords.Config{Dir: dir, Images: noImages{}})
	id := "sha256:" + strings.Repeat("a", 64)
	again := func() {
		p, err := g.cfg.Pulls.Begin(t.Context(), "a:1")
		if err != nil {
			t.Fatal(err)
		}
		p.Succeeded(t.Context(), id, pullrecords.Credential{})
	}
	again()
	g.cfg.Store = removedThen{s, again}
	if err := g.remove(t.Context(), &Image{StoredImage: cri.StoredImage{ID: id}}, removedSpace); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "pulled")); err != nil || len(entries) != 1 {
		t.Errorf("records %v (%v)", entries, err)
	}
}

// removedThen calls a function after each removal.
type removedThen struct {
	*store
	then func()
}

func (r removedThen) RemoveImage(ctx context.Context, id string) error {
	defer r.then()
	return r.store.RemoveImage(ctx, id)
}

// noImages is a runtime without images.
type noImages struct{}

func (noImages) ImageStatus(context.Context, string) (*runtimeapi.Image, error) { return nil, nil }
