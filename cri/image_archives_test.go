package cri

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/wakeup"
)

// archives are ImageArchives with one image.
type archives struct {
	mu      sync.Mutex
	image   string
	found   ArchivedImage
	lost    int // how often the image was said not to be present
	changed wakeup.Broadcast
}

func newArchives(image string, found ArchivedImage) *archives {
	return &archives{image: image, found: found}
}

func (a *archives) Find(image string, present bool) (ArchivedImage, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if image != a.image {
		return ArchivedImage{}, false
	}
	if !present {
		a.lost++
	}
	return a.found, true
}

func (a *archives) Subscribe() (<-chan struct{}, func()) { return a.changed.Subscribe() }

func (a *archives) set(image string, found ArchivedImage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.image, a.found = image, found
	a.changed.Notify()
}

// An image that an archive contains is not pulled: the container waits for the archive, and
// then uses what the runtime has, whatever the policy.
func TestImagesOfArchivesAreNotPulled(t *testing.T) {
	const image = "registry.test/web:1"
	for name, tc := range map[string]struct {
		found   ArchivedImage
		present bool
		policy  v1.PullPolicy
		want    string // ID, reason, or "pulls"
	}{
		"loading": {ArchivedImage{Archive: "/a.tar", Loading: true}, false, v1.PullIfNotPresent,
			"ImageArchiveLoading"},
		"loading, Always": {ArchivedImage{Archive: "/a.tar", Loading: true}, false, v1.PullAlways,
			"ImageArchiveLoading"},
		"loading, Never": {ArchivedImage{Archive: "/a.tar", Loading: true}, false, v1.PullNever,
			"ErrImageNeverPull"},
		"a newer one is loading": {ArchivedImage{Archive: "/a.tar", Loading: true}, true, v1.PullIfNotPresent,
			"id-of-" + image},
		"a newer one is loading,Always": {ArchivedImage{Archive: "/a.tar", Loading: true}, true, v1.PullAlways,
			"ImageArchiveLoading"},
		"loaded":         {ArchivedImage{Archive: "/a.tar"}, true, v1.PullIfNotPresent, "id-of-" + image},
		"loaded, Always": {ArchivedImage{Archive: "/a.tar"}, true, v1.PullAlways, "id-of-" + image},
		"failed":         {ArchivedImage{Archive: "/a.tar", Fault: "it is empty"}, false, v1.PullIfNotPresent, "pulls"},
		"failed, Always": {ArchivedImage{Archive: "/a.tar", Fault: "it is empty"}, true, v1.PullAlways, "pulls"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRegistry()
				if tc.present {
					r = newRegistry(image)
				}
				m := newImageManager(ImageConfig{Runtime: r, Archives: newArchives(image, tc.found)}, noEvents{})
				w := m.ask("u", image, tc.policy)
				if tc.want == "pulls" {
					if len(r.pulls()) != 1 {
						t.Fatalf("%d pulls, %v", len(r.pulls()), w.err)
					}
					r.response(image, errors.New("no route to host"))
					synctest.Wait()
					if w.err == nil || !strings.Contains(w.err.Error(),
						"no route to host; image archive /a.tar contains it, but: it is empty") {
						t.Errorf("the error is %v", w.err)
					}
					return
				}
				got := w.ref
				var wait *waitError
				if errors.As(w.err, &wait) {
					got = wait.Reason
				}
				if got != tc.want || len(r.pulls()) != 0 {
					t.Errorf("it is %q (%v) after %d pulls, want %q without one", got, w.err, len(r.pulls()), tc.want)
				}
			})
		})
	}
}

// A pull in progress, of a registry that does not respond, ends when an archive turns out to
// contain the image, and the image counts as not failed.
func TestPullEndsWhenAnArchiveContainsTheImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const image = "registry.test/web:1"
		r, a := newRegistry(), newArchives("", ArchivedImage{})
		m := newImageManager(ImageConfig{Runtime: r, Archives: a}, noEvents{})
		w := m.ask("u", image, v1.PullIfNotPresent)
		a.set("registry.test/other:1", ArchivedImage{Archive: "/b.tar", Loading: true})
		synctest.Wait()
		if w.done {
			t.Fatalf("another image ended the pull: %v", w.err)
		}
		a.set(image, ArchivedImage{Archive: "/a.tar", Loading: true})
		synctest.Wait()
		var wait *waitError
		if !w.done || !errors.As(w.err, &wait) || wait.Reason != "ImageArchiveLoading" || len(r.ended) != 1 {
			t.Fatalf("the container waits for %v, %d pulls were cancelled", w.err, len(r.ended))
		}
		r.mu.Lock()
		r.present[image] = "loaded"
		r.mu.Unlock()
		a.set(image, ArchivedImage{Archive: "/a.tar"})
		if w := m.ask("u", image, v1.PullIfNotPresent); w.ref != "loaded" || w.err != nil {
			t.Errorf("the image is %q, %v", w.ref, w.err)
		}
	})
}
