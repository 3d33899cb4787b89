package imagestore

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/internal/wallclock"
)

// cut ends a pull or load in the middle, as a power cut does: the store is opened again in another boot.
func (h *harness) cut(file string) {
	h.end()
	h.boot += "'"
	h.open(file)
}

// end ends a daemon: what it still does has no effect.
func (h *harness) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.file = journalFormat.File("", h.cfg.Disk)
	h.syncFS = func(string) error { return nil }
}

// recovered runs Run to its end.
func (h *harness) recovered(t *testing.T) (removals []Removal) {
	t.Helper()
	h.OnRemoved(func(r Removal) { removals = append(removals, r) })
	if err := h.Run(context.Background()); err != nil {
		t.Error(err)
	}
	return removals
}

// What was being pulled or loaded when the power failed is removed before it is used, with the leases that keep its
// layers; its name is given back to the image that had it. Other images do not wait for that.
func TestPowerCutAmidPull(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal.json")
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		booted := now.Add(-wallclock.Uptime())
		h := newHarness()
		h.boot = "first"
		h.open(file)
		h.runtime.put("web:1", "old")
		h.runtime.put("other:1", "other")
		h.runtime.leases = []time.Time{booted.Add(-time.Hour), booted.Add(time.Second), now.Add(time.Hour)}
		ended := make(chan struct{})
		h.runtime.pull = func(string) error { <-ended; return errors.New("the power failed") }
		for _, name := range []string{"web:1", "db:1", "absent:1"} {
			_ = started(func() error { _, err := h.PullImage(context.Background(), name, nil); return err })
		}
		h.runtime.put("web:1", "new")
		h.runtime.put("db:1", "db")
		h.cut(file)

		h.runtime.down = errors.New("down")
		running := started(func() []Removal { return h.recovered(t) })
		h.runtime.mu.Lock()
		h.runtime.down = nil
		h.runtime.mu.Unlock()
		if got := <-h.status("other:1"); got != "other" {
			t.Errorf("another image: %q", got)
		}
		if got := <-h.status("web:1"); !strings.Contains(got, "cannot be removed yet: down") {
			t.Errorf("an image that was being pulled: %q", got)
		}
		if err := <-h.pulled(context.Background(), "third:1"); err == nil {
			t.Error("an image is pulled before the layers of others are removed")
		}
		want := []Removal{{"db:1", "db"}, {"web:1", "new"}}
		got := <-running
		slices.SortFunc(got, func(a, b Removal) int { return strings.Compare(a.Name, b.Name) })
		if !slices.Equal(got, want) {
			t.Errorf("removed %v, want %v", got, want)
		}
		if got := <-h.status("web:1"); got != "old" {
			t.Errorf("the image that had the name before: %q", got)
		}
		if got := h.runtime.leases; !slices.Equal(got, []time.Time{booted.Add(time.Second)}) {
			t.Errorf("leases: %v", got)
		}

		// The pull that brings it again, or cannot, says why it was gone.
		h.runtime.pull = func(string) error { return errors.New("no route") }
		if err := <-h.pulled(context.Background(), "db:1"); err == nil || !strings.Contains(err.Error(),
			"no route; the image was removed") {
			t.Errorf("the next pull: %v", err)
		}
		time.Sleep(2 * settleDelay)
		h.cut(file)
		if removals := h.recovered(t); len(removals) > 0 {
			t.Errorf("removed again: %v", removals)
		}
		close(ended)
		time.Sleep(2 * settleDelay)
	})
}

// An image that was complete before the pull gave it another name is kept.
func TestPowerCutAmidPullOfAnImageThatWasHere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal.json")
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		h.open(file)
		h.runtime.put("docker.io/library/web:1", "web")
		ended := make(chan struct{})
		h.runtime.pull = func(string) error { <-ended; return errors.New("the power failed") }
		_ = h.pulled(context.Background(), "web:stable")
		_ = h.pulled(context.Background(), "db:1")
		h.runtime.put("web:stable", "web")
		h.runtime.put("db:1", "db")
		h.runtime.put("docker.io/library/db:1", "db")
		h.cut(file)
		if removals := h.recovered(t); !slices.Equal(removals, []Removal{{"db:1", "db"}}) {
			t.Errorf("removed: %v", removals)
		}
		close(ended)
		time.Sleep(2 * settleDelay)
	})
}

// Manifests may have a short name where the runtime reports a long one.
func TestNamesOfOneImage(t *testing.T) {
	for _, c := range []struct {
		own, name string
		same      bool
	}{
		{"web:1", "docker.io/library/web:1", true},
		{"docker.io/library/web:1", "web:1", true},
		{"docker.io/web", "docker.io/library/web:latest", true},
		{"web:1", "quay.io/web:1", true},
		{"team/web:1", "quay.io/team/web:1", true},
		{"web:1", "docker.io/library/web:2", false},
		{"web:1", "docker.io/library/otherweb:1", false},
		{"quay.io/web:1", "docker.io/library/web:1", false},
		{"localhost/web:1", "quay.io/localhost/web:1", false},
		{"web:1", "web@sha256:" + strings.Repeat("a", 64), false},
	} {
		if got := sameName(c.own, c.name); got != c.same {
			t.Errorf("%s and %s: %t", c.own, c.name, got)
		}
	}
}

// A pull that was complete, or failed long ago, is not removed after a boot.
func TestPowerCutAfterPull(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal.json")
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		h.open(file)
		pull := h.pulled(context.Background(), "web:1")
		<-h.syncs
		h.results <- nil
		if err := <-pull; err != nil {
			t.Fatal(err)
		}
		h.runtime.pull = func(image string) error { return errors.New("no route") }
		if err := <-h.pulled(context.Background(), "db:1"); err == nil {
			t.Error("no error")
		}
		time.Sleep(2 * settleDelay)
		h.runtime.put("db:1", "of another client")
		h.cut(file)
		if removals := h.recovered(t); len(removals) > 0 {
			t.Errorf("removed: %v", removals)
		}
		if got := <-h.status("web:1") + <-h.status("db:1"); got != "id-of-web:1of another client" {
			t.Errorf("the images: %q", got)
		}
	})
}

// A pull that failed may continue in the runtime: what comes within a minute is not trusted after a boot.
func TestPowerCutAfterFailedPull(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal.json")
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		h.open(file)
		h.runtime.pull = func(image string) error { return errors.New("lost") }
		if err := <-h.pulled(context.Background(), "db:1"); err == nil {
			t.Error("no error")
		}
		h.runtime.put("db:1", "late")
		h.cut(file)
		if removals := h.recovered(t); len(removals) != 1 {
			t.Errorf("removed: %v", removals)
		}
		time.Sleep(2 * settleDelay)
	})
}

// A daemon that was killed in the same boot has lost nothing: the image is synced before it is used, and kept.
func TestDaemonKilledAmidPull(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal.json")
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		h.boot = "first"
		h.open(file)
		pull := h.pulled(context.Background(), "web:1")
		<-h.syncs
		before := h.results
		h.results = make(chan error)
		h.end()
		h.open(file)
		status := h.status("web:1")
		if len(status) > 0 {
			t.Error("the image counts as present before it is synced")
		}
		running := started(func() []Removal { return h.recovered(t) })
		<-h.syncs
		h.results <- nil
		if got := <-status; got != "id-of-web:1" {
			t.Errorf("the image: %q", got)
		}
		if removals := <-running; len(removals) > 0 {
			t.Errorf("removed: %v", removals)
		}
		before <- nil
		<-pull
		<-h.syncs // the runtime may have continued
		h.results <- nil
		synctest.Wait()
		if h.unfinished() != 0 {
			t.Error("the addition is not forgotten")
		}
	})
}
