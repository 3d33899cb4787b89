package imagestore

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtime is an image service that has what tests put into it.
type runtime struct {
	mu      sync.Mutex
	present map[string]string // image IDs by name
	pull    func(image string) error
	// down is the error of every call.
	down error
	// calls are the removals and restorations.
	calls []string
	// leases are the times at which leases were created.
	leases []time.Time
}

func (r *runtime) ImageStatus(_ context.Context, image string) (*runtimeapi.Image, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down != nil {
		return nil, r.down
	}
	id, ok := r.present[image]
	if !ok {
		return nil, nil
	}
	found := &runtimeapi.Image{Id: id}
	for name, other := range r.present {
		if other == id {
			found.RepoTags = append(found.RepoTags, name)
		}
	}
	return found, nil
}

func (r *runtime) PullImage(_ context.Context, image string, _ *runtimeapi.AuthConfig) (string, error) {
	return image, r.pull(image)
}

func (r *runtime) put(image, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.present[image] = id
}

func (r *runtime) remove(image string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.present, image)
}

// RemoveImage removes all names of an image.
func (r *runtime) RemoveImage(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, "remove "+id)
	maps.DeleteFunc(r.present, func(_, other string) bool { return other == id })
	return r.down
}

func (r *runtime) DropLeases(_ context.Context, drop func(time.Time) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down == nil {
		r.leases = slices.DeleteFunc(r.leases, drop)
	}
	return r.down
}

func (r *runtime) RestoreImageName(_ context.Context, name, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, "restore "+name+" "+id)
	r.present[name] = id
	return r.down
}

// harness is a store whose syncs block until the test lets them end.
type harness struct {
	*Store
	runtime *runtime
	// syncs receives the directory of each sync; an error is what it results in.
	syncs   chan string
	results chan error
	// boot is the ID of the boot of the next open.
	boot string
}

func newHarness() *harness {
	h := &harness{runtime: &runtime{present: map[string]string{}}, syncs: make(chan string, 10), results: make(chan error)}
	h.open("")
	return h
}

// open opens the store with a journal, as another daemon does.
func (h *harness) open(file string) {
	h.Store = Open(Config{
		Runtime: h.runtime, Containerd: h.runtime, Mount: func(context.Context) (string, error) { return "/images", nil },
		File: file, Boot: h.boot, Log: slog.New(slog.DiscardHandler),
	})
	h.Store.syncFS = func(dir string) error {
		h.syncs <- dir
		return <-h.results
	}
	h.runtime.pull = func(image string) error {
		h.runtime.put(image, "id-of-"+image)
		return nil
	}
}

// started runs a function, and returns a channel with its result.
func started[T any](f func() T) chan T {
	result := make(chan T, 1)
	go func() { result <- f() }()
	synctest.Wait()
	return result
}

func (h *harness) pulled(ctx context.Context, image string) chan error {
	return started(func() error { _, err := h.PullImage(ctx, image, nil); return err })
}

func (h *harness) status(image string) chan string {
	return started(func() string {
		found, err := h.ImageStatus(context.Background(), image)
		return found.GetId() + errorText(err)
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// An image that was pulled counts as present when it is synced, under each of its names; what was there before does not
// wait.
func TestPulledImageIsSyncedBeforeItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		h.runtime.put("other:1", "id-of-other:1")
		pull := h.pulled(t.Context(), "web:1")
		h.runtime.put("web:latest", "id-of-web:1")
		waiting := []chan string{h.status("web:1"), h.status("web:latest")}
		if len(pull) > 0 || len(waiting[0]) > 0 || len(waiting[1]) > 0 {
			t.Error("the image counts as present before it is synced")
		}
		if got := <-h.status("other:1"); got != "id-of-other:1" {
			t.Errorf("another image: %q", got)
		}
		if got := <-h.syncs; got != "/images" {
			t.Errorf("synced %q", got)
		}
		h.results <- nil
		if err := <-pull; err != nil {
			t.Error(err)
		}
		for _, w := range waiting {
			if got := <-w; got != "id-of-web:1" {
				t.Errorf("the image: %q", got)
			}
		}
	})
}

// A pull of an image that is there and was synced, as with the policy Always, syncs nothing; one that brings another
// image, or the same one after it was removed, does. While it lasts, the image that was there can be used.
func TestPullOfImageThatIsPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		h.runtime.put("web:1", "id-of-web:1")
		pull := func() int {
			done := h.pulled(t.Context(), "web:1")
			n := len(h.syncs)
			if n > 0 {
				<-h.syncs
				h.results <- nil
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			return n
		}
		if n := pull(); n != 1 {
			t.Errorf("an image of another client: %d syncs", n)
		}
		if n := pull(); n != 0 {
			t.Errorf("an image that was synced: %d syncs", n)
		}
		h.runtime.remove("web:1")
		if n := pull(); n != 1 {
			t.Errorf("an image that was removed: %d syncs", n)
		}
		h.runtime.pull = func(image string) error {
			if found, err := h.ImageStatus(t.Context(), image); found.GetId() != "id-of-web:1" {
				t.Errorf("while it is pulled: %q, %v", found.GetId(), err)
			}
			h.runtime.put(image, "another")
			return nil
		}
		if n := pull(); n != 1 {
			t.Errorf("another image: %d syncs", n)
		}
	})
}

// A pull that its caller gives up or whose response is lost may have brought the image: it is synced before it is used.
func TestPullWithoutResult(t *testing.T) {
	lost := errors.New("lost")
	for name, pull := range map[string]func(h *harness) error{
		"cancelled": func(h *harness) error {
			ctx, cancel := context.WithCancel(context.Background())
			done := h.pulled(ctx, "web:1")
			cancel()
			return <-done
		},
		"lost": func(h *harness) error {
			h.runtime.pull = func(image string) error {
				h.runtime.put(image, "id-of-web:1")
				return lost
			}
			return <-h.pulled(context.Background(), "web:1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness()
				if err := pull(h); !errors.Is(err, lost) && !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				status := h.status("web:1")
				if len(status) > 0 {
					t.Error("the image counts as present before it is synced")
				}
				<-h.syncs
				h.results <- nil
				if got := <-status; got != "id-of-web:1" {
					t.Errorf("the image: %q", got)
				}
			})
		})
	}
}

// Pods start with images that cannot be synced; the next pull tries it again.
func TestSyncFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		for range 2 {
			pull := h.pulled(t.Context(), "web:1")
			<-h.syncs
			h.results <- errors.New("I/O error")
			if err := <-pull; err != nil {
				t.Error(err)
			}
			if got := <-h.status("web:1"); got != "id-of-web:1" {
				t.Errorf("the image: %q", got)
			}
		}
	})
}

// An import of several images is waited for as a whole: ctr creates images before it unpacks them.
func TestAddSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		unpacked := make(chan struct{})
		add := started(func() error {
			return h.Add(t.Context(), []string{"a:1", "b:1"}, func() error {
				h.runtime.put("a:1", "a")
				h.runtime.put("b:1", "b")
				<-unpacked
				return nil
			})
		})
		status := h.status("b:1")
		close(unpacked)
		synctest.Wait()
		if len(add) > 0 || len(status) > 0 {
			t.Error("it is not waited for the sync")
		}
		<-h.syncs
		h.results <- nil
		if err, id := <-add, <-status; err != nil || id != "b" {
			t.Errorf("%v, %q", err, id)
		}
		if h.unfinished() != 0 {
			t.Error("the addition is not forgotten")
		}
	})
}

func (h *harness) unfinished() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.additions)
}

func TestSyncFS(t *testing.T) {
	if err := syncFS(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := syncFS("/does/not/exist"); err == nil {
		t.Error("no error")
	}
}
