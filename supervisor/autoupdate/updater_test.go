package autoupdate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/maintenance"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/registry"
	"github.com/podstead/podstead/supervisor/rollout"
)

const image = "registry.test/team/web:1"

// digest returns a digest with a recognizable beginning.
func digest(name string) string { return "sha256:" + (name + strings.Repeat("0", 64))[:64] }

// updaterHarness is an Updater whose rollouts, registry and runtime are set by the test.
type updaterHarness struct {
	t       *testing.T
	updater *Updater
	file    string
	stop    func()

	mu      sync.Mutex
	targets []rollout.ImageTarget
	wake    chan struct{}
	asked   int
	fetched int      // manifests
	calls   []string // of SetImages
	refuses error

	tags      map[string]string // tag to digest
	manifests map[string]registry.Manifest
	resolved  []string
	logins    []string
	err       error

	stored map[string]cri.StoredImage // by reference or ID
	pulled []string
	pods   []*cri.Pod
	events []string
	counts map[string]int
}

func newHarness(t *testing.T) *updaterHarness {
	h := &updaterHarness{
		t: t, file: filepath.Join(t.TempDir(), "autoupdate.json"), wake: make(chan struct{}, 1),
		tags: map[string]string{}, manifests: map[string]registry.Manifest{}, stored: map[string]cri.StoredImage{},
		counts: map[string]int{},
	}
	// The image that runs: its tag is at the digest under which it was pulled.
	h.tags[image] = digest("a1")
	h.store(digest("c1"), "registry.test/team/web@"+digest("a1"))
	return h
}

// start starts the Updater, which ends with the test or when stop is called.
func (h *updaterHarness) start(windows ...string) {
	h.t.Helper()
	s := Schedule{Interval: 24 * time.Hour, Node: "n1", Location: time.UTC}
	for _, text := range windows {
		w, err := maintenance.ParseWindow(text)
		if err != nil {
			h.t.Fatal(err)
		}
		s.Windows = append(s.Windows, w)
	}
	h.updater = New(Config{
		Schedule: s, Rollouts: h, Registry: h, Images: h, Pull: h.Pull, File: h.file, Events: h, Metrics: h,
		Observed: func() *cri.Observed {
			h.mu.Lock()
			defer h.mu.Unlock()
			return &cri.Observed{Own: h.pods}
		},
		Credentials: func(*v1.Pod) cri.PullCredentials {
			return cri.PullCredentials{Lookup: func(context.Context, string) ([]cri.Credential, error) {
				return []cri.Credential{{Username: "bob"}}, nil
			}}
		},
	})
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.updater.Run(ctx); err != nil {
			h.t.Error(err)
		}
	}()
	h.stop = sync.OnceFunc(func() { cancel(); <-done })
	synctest.Wait()
}

// add adds a pod whose container web runs the image with an ID.
func (h *updaterHarness) add(mode, id string, change ...func(*v1.Pod)) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-n1", UID: "u1",
			Annotations: map[string]string{podinfo.AnnotationAutoUpdate: mode, podinfo.AnnotationSource: "file"}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web", Image: image}}},
	}
	for _, f := range change {
		f(pod)
	}
	h.mu.Lock()
	h.targets = append(h.targets, rollout.ImageTarget{Manifest: pod, UID: pod.UID})
	h.pods = append(h.pods, &cri.Pod{UID: pod.UID,
		Containers: []cri.Container{{Name: "web", ImageRef: id}, {Name: "web", ImageRef: "sha256:older"}}})
	h.mu.Unlock()
	h.change(func(*rollout.ImageTarget) {})
}

// change changes the first pod and notifies.
func (h *updaterHarness) change(f func(*rollout.ImageTarget)) {
	h.mu.Lock()
	f(&h.targets[0])
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
	synctest.Wait()
}

// roll brings the images of the last request into effect, in a pod that runs the image with
// an ID.
func (h *updaterHarness) roll(images map[string]string, id string) {
	h.change(func(t *rollout.ImageTarget) {
		t.Images, t.Candidate, t.Busy, t.UID = images, nil, "", types.UID(fmt.Sprint(images))
		h.pods = []*cri.Pod{{UID: t.UID, Containers: []cri.Container{{Name: "web", ImageRef: id}}}}
	})
}

func (h *updaterHarness) store(id string, digests ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := cri.StoredImage{ID: id, Digests: digests}
	h.stored[id] = i
	for _, d := range digests {
		h.stored[d] = i
	}
}

// tag gives the image's name to an image without a digest, as an archive is loaded.
func (h *updaterHarness) tag(id string) {
	h.store(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stored[image] = h.stored[id]
}

// day lets a day pass, in which each pod is checked once.
func (h *updaterHarness) day() { h.sleep(24 * time.Hour) }

// sleep lets time pass.
func (h *updaterHarness) sleep(d time.Duration) {
	h.mu.Lock()
	h.mu.Unlock() //nolint:staticcheck // it orders what the test has read before what follows
	time.Sleep(d)
	synctest.Wait()
}

func (h *updaterHarness) state() string {
	h.t.Helper()
	var all []string
	for _, s := range h.updater.AutoUpdates() {
		for _, r := range s.Containers {
			all = append(all, r.State)
		}
	}
	return strings.Join(all, " ")
}

func (h *updaterHarness) took() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.calls = nil }()
	return strings.Join(h.calls, "\n")
}

func (h *updaterHarness) AutoUpdated() []rollout.ImageTarget {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	return append([]rollout.ImageTarget(nil), h.targets...)
}

func (h *updaterHarness) UpdateImages(name string, images, previous map[string]string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, fmt.Sprint(name, " ", images, " before ", previous))
	if h.refuses == nil {
		if h.targets[0].Candidate = images; maps.Equal(images, h.targets[0].Images) {
			h.targets[0].Candidate = nil
		}
	}
	return h.refuses
}

func (h *updaterHarness) Subscribe() (<-chan struct{}, func()) { return h.wake, func() {} }

func (h *updaterHarness) Resolve(_ context.Context, r registry.Reference,
	credentials ...registry.Credential) (registry.Descriptor, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resolved = append(h.resolved, r.String())
	for _, c := range credentials {
		h.logins = append(h.logins, c.Username)
	}
	if h.err != nil {
		return registry.Descriptor{}, h.err
	}
	d, ok := h.tags[r.String()]
	if !ok {
		return registry.Descriptor{}, registry.ErrNotFound
	}
	return registry.Descriptor{Digest: d}, nil
}

func (h *updaterHarness) FetchManifest(_ context.Context, r registry.Reference, _ int64,
	_ ...registry.Credential) (registry.Manifest, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fetched++
	m, ok := h.manifests[r.Digest]
	if !ok {
		return registry.Manifest{}, registry.ErrNotFound
	}
	m.Digest = r.Digest
	return m, nil
}

// push makes a tag name a manifest of an image with an ID.
func (h *updaterHarness) push(manifest, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tags[image] = manifest
	h.manifests[manifest] = registry.Manifest{MediaType: registry.TypeManifest, Config: registry.Descriptor{Digest: id}}
}

func (h *updaterHarness) StoredImage(_ context.Context, ref string) (cri.StoredImage, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, ok := h.stored[ref]
	return i, ok, nil
}

func (h *updaterHarness) Pull(_ context.Context, name string, _ cri.PullCredentials) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pulled = append(h.pulled, name)
	return nil
}

func (h *updaterHarness) Event(_ *v1.Pod, _, reason, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, reason+": "+message)
}

func (h *updaterHarness) ImageChecked(result string) { h.counted(result) }
func (h *updaterHarness) ImageUpdated(result string) { h.counted(result) }
func (h *updaterHarness) counted(result string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[result]++
}

// fail makes the registry, or the rollouts, answer with an error; nil ends that.
func (h *updaterHarness) fail(ofRegistry, ofRollouts error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err, h.refuses = ofRegistry, ofRollouts
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T, h *updaterHarness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		f(t, h)
		if h.stop != nil {
			h.stop()
		}
	})
}

var newest = map[string]string{"web": image + "@" + digest("a2")}

// A tag that moves is rolled out by digest once, with the exact image that ran before, and
// its tag is pulled when it is in effect.
func TestUpdateFromRegistry(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.start()
		h.add(podinfo.AutoUpdateRegistry, digest("c1"))
		h.day()
		if got := h.took(); got != "" || h.state() != api.UpdateCurrent || len(h.resolved) != 1 || h.logins[0] != "bob" {
			t.Fatalf("%q, %s, asked for %q as %q", got, h.state(), h.resolved, h.logins)
		}
		h.push(digest("a2"), digest("c2"))
		h.day()
		want := fmt.Sprint("default/web-n1 ", newest, " before map[web:", image, "@", digest("a1"), "]")
		if got := h.took(); got != want || h.state() != api.UpdateUpdating {
			t.Fatalf("%s\n%q, want\n%q", h.state(), got, want)
		}
		if len(h.events) != 1 ||
			h.events[0] != `ImageUpdateStarted: Updating image "registry.test/team/web:1" of container web from sha256:a10000000000 to sha256:a20000000000` {
			t.Errorf("events %q", h.events)
		}
		h.change(func(t *rollout.ImageTarget) { t.Candidate, t.Busy = nil, "the rollout is progressing" })
		h.store(digest("c2"), "registry.test/team/web@"+digest("a2"))
		h.roll(newest, digest("c2"))
		if h.state() != api.UpdateCurrent || fmt.Sprint(h.pulled) != "["+image+"]" || h.counts["completed"] != 1 {
			t.Errorf("%s, pulled %q, counts %v", h.state(), h.pulled, h.counts)
		}
		h.day()
		if got := h.took(); got != "" || h.counts["current"] != 2 || h.counts["available"] == 0 {
			t.Errorf("%q, counts %v", got, h.counts)
		}
	})
}

// An image that was rolled back is not tried again, also by a later daemon, until its tag
// moves or the manifest changes.
func TestRolledBackImageIsNotTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.start()
		h.add(podinfo.AutoUpdateRegistry, digest("c1"))
		h.push(digest("a2"), digest("c2"))
		h.day()
		if h.took() == "" {
			t.Fatal("not updated")
		}
		h.change(func(t *rollout.ImageTarget) { t.Candidate, t.Busy = nil, "the rollout is progressing" })
		h.day()
		if got := h.took(); got != "" {
			t.Fatalf("during a rollout: %s", got)
		}
		h.change(func(t *rollout.ImageTarget) { t.Busy, t.Rejected = "", newest })
		if h.state() != api.UpdateRolledBack || h.counts["rolled_back"] != 1 {
			t.Fatalf("%s, counts %v", h.state(), h.counts)
		}
		h.day()
		h.stop()
		h.change(func(t *rollout.ImageTarget) { t.Rejected = nil })
		h.start()
		h.day()
		if got := h.took(); got != "" || h.state() != api.UpdateRolledBack {
			t.Fatalf("%s: %s", h.state(), got)
		}
		h.push(digest("a3"), digest("c3"))
		h.day()
		if got := h.took(); !strings.Contains(got, digest("a3")) {
			t.Fatalf("the tag moved: %q", got)
		}
		h.change(func(t *rollout.ImageTarget) {
			t.Candidate, t.Rejected = nil, map[string]string{"web": image + "@" + digest("a3")}
		})
		h.change(func(t *rollout.ImageTarget) {
			t.Manifest = t.Manifest.DeepCopy()
			t.Manifest.Annotations[podinfo.AnnotationHash] = "edited"
		})
		h.day()
		if got := h.took(); !strings.Contains(got, digest("a3")) {
			t.Fatalf("the manifest changed: %q", got)
		}
	})
}

// What names the running image in another way is no update: the manifest of this platform in
// an index, an index of which only another platform has changed, the image of an archive.
func TestSameImageUnderAnotherDigest(t *testing.T) {
	own := &registry.Platform{OS: "linux", Architecture: runtime.GOARCH}
	other := &registry.Platform{OS: "linux", Architecture: "s390x"}
	for name, digests := range map[string][]string{
		"pulled by index":    {"registry.test/team/web@" + digest("a1")},
		"pulled by platform": {"registry.test/team/web@" + digest("b1")},
		"loaded":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *updaterHarness) {
				h.stored = map[string]cri.StoredImage{}
				h.store(digest("c1"), digests...)
				index := registry.Manifest{MediaType: registry.TypeIndex,
					Manifests: []registry.Descriptor{{Digest: digest("bf"), Platform: other}, {Digest: digest("b1"), Platform: own}}}
				h.tags[image], h.manifests[digest("a2")] = digest("a2"), index
				h.manifests[digest("b1")] = registry.Manifest{Config: registry.Descriptor{Digest: digest("c1")}}
				h.start()
				h.add(podinfo.AutoUpdateRegistry, digest("c1"))
				h.day()
				if got := h.took(); got != "" || h.state() != api.UpdateCurrent {
					t.Fatalf("%s: %s", h.state(), got)
				}
				// The registry is not asked for the manifests again.
				h.mu.Lock()
				clear(h.manifests)
				h.mu.Unlock()
				h.day()
				if h.state() != api.UpdateCurrent {
					t.Fatal(h.state())
				}
				// Now this platform has another image.
				index.Manifests = []registry.Descriptor{{Digest: digest("bf"), Platform: other},
					{Digest: digest("b2"), Platform: own}}
				h.mu.Lock()
				h.tags[image], h.manifests[digest("a3")] = digest("a3"), index
				h.manifests[digest("b2")] = registry.Manifest{Config: registry.Descriptor{Digest: digest("c2")}}
				h.mu.Unlock()
				h.day()
				if got := h.took(); !strings.Contains(got, image+"@"+digest("a3")) {
					t.Fatalf("%s: %s", h.state(), got)
				}
			})
		})
	}
}

func TestImageOfOtherPlatformsOnly(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.start()
		h.add(podinfo.AutoUpdateRegistry, digest("c1"))
		h.mu.Lock()
		h.tags[image] = digest("a2")
		h.manifests[digest("a2")] = registry.Manifest{MediaType: registry.TypeIndex,
			Manifests: []registry.Descriptor{
				{Digest: digest("b2"), Platform: &registry.Platform{OS: "linux", Architecture: "s390x"}}}}
		h.mu.Unlock()
		h.day()
		if got := h.took(); got != "" || h.state() != api.UpdateFailed || !strings.Contains(h.events[0], "other platforms") {
			t.Errorf("%s %q, events %q", h.state(), got, h.events)
		}
	})
}

// A registry cannot keep the updates of all other pods waiting with an index of thousands of
// images for this platform.
func TestIndexOfManyImages(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.start()
		h.add(podinfo.AutoUpdateRegistry, digest("c1"))
		index := registry.Manifest{MediaType: registry.TypeIndex}
		h.mu.Lock()
		for i := range 1000 {
			d := digest(fmt.Sprintf("b%04d", i))
			index.Manifests = append(index.Manifests,
				registry.Descriptor{Digest: d, Platform: &registry.Platform{OS: "linux", Architecture: runtime.GOARCH}})
			h.manifests[d] = registry.Manifest{Config: registry.Descriptor{Digest: digest("c2")}}
		}
		h.tags[image], h.manifests[digest("a2")] = digest("a2"), index
		h.mu.Unlock()
		h.day()
		if h.fetched > len(h.resolved)*(1+maxVariants) {
			t.Errorf("%d manifests were read in %d checks", h.fetched, len(h.resolved))
		}
		if got := h.took(); got != "" || h.state() != api.UpdateFailed || !strings.Contains(h.events[0], "more than") {
			t.Errorf("%s %q, events %q", h.state(), got, h.events)
		}
	})
}

// A registry that cannot be reached is asked again with a growing delay, reported once, and
// the running image stays.
func TestUnreachableRegistry(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.start()
		h.add(podinfo.AutoUpdateRegistry, digest("c1"))
		h.fail(fmt.Errorf("no route to host: %w", registry.ErrUnreachable), nil)
		for range 4 {
			h.day()
		}
		if n := len(h.resolved); n < 50 || n > 100 || h.took() != "" || h.state() != api.UpdateFailed {
			t.Fatalf("asked %d times in 4 days, %s", n, h.state())
		}
		if len(h.events) != 1 || !strings.HasPrefix(h.events[0],
			"ImageUpdateCheckFailed: failed to check image \"registry.test/team/web:1\": no route to host") {
			t.Fatalf("events %q", h.events)
		}
		h.fail(nil, nil)
		h.push(digest("a2"), digest("c2"))
		h.sleep(2 * time.Hour)
		if h.took() == "" || h.state() != api.UpdateUpdating {
			t.Fatalf("not updated when the registry returned: %s", h.state())
		}
	})
}

func TestErrorsOfTheRegistryHaveARemedy(t *testing.T) {
	for err, want := range map[error]string{
		registry.ErrNotFound:     "the running image is kept; push the tag again, or correct the manifest",
		registry.ErrUnauthorized: "check imagePullSecrets",
	} {
		bubble(t, func(t *testing.T, h *updaterHarness) {
			h.start()
			h.add(podinfo.AutoUpdateRegistry, digest("c1"))
			h.fail(err, nil)
			h.day()
			if len(h.events) != 1 || !strings.Contains(h.events[0], want) || h.took() != "" {
				t.Errorf("events %q, want %q", h.events, want)
			}
		})
	}
}

// While an update is prepared a further one supersedes it, and one back to what runs cancels
// it: the digest that is prepared may be gone.
func TestTagMovesWhileItIsPrepared(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.start()
		h.add(podinfo.AutoUpdateRegistry, digest("c1"))
		h.push(digest("a2"), digest("c2"))
		h.day()
		h.took()
		h.day()
		if got := h.took(); got != "" || h.state() != api.UpdateUpdating {
			t.Fatalf("%s: the same image was requested again: %s", h.state(), got)
		}
		h.push(digest("a3"), digest("c3"))
		h.day()
		if got := h.took(); !strings.Contains(got, digest("a3")) || strings.Contains(got, digest("a2")) {
			t.Fatalf("the tag moved: %q", got)
		}
		h.push(digest("a1"), digest("c1"))
		h.day()
		if got := h.took(); !strings.HasPrefix(got, "default/web-n1 map[] before") {
			t.Fatalf("the tag is back: %q", got)
		}
		h.day()
		if got := h.took(); got != "" || h.state() != api.UpdateCurrent || h.counts["rolled_back"] != 0 {
			t.Fatalf("%s: %q %v", h.state(), got, h.counts)
		}
	})
}

// An image that was loaded under the name of a pod's image replaces the pod at once.
func TestLoadedImage(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.stored[image] = h.stored[digest("c1")]
		h.start()
		h.add(podinfo.AutoUpdateLocal, digest("c1"))
		h.updater.ImagesLoaded([]string{image})
		synctest.Wait()
		if got := h.took(); got != "" || h.state() != api.UpdateCurrent {
			t.Fatalf("%s: %s", h.state(), got)
		}
		h.tag(digest("c2"))
		h.updater.ImagesLoaded([]string{"registry.test/other:1"})
		synctest.Wait()
		if got := h.took(); got != "" {
			t.Fatalf("another image was loaded: %s", got)
		}
		h.updater.ImagesLoaded([]string{"registry.test/other:1", image})
		synctest.Wait()
		want := fmt.Sprintf("default/web-n1 map[web:%s] before map[web:%s@%s]", digest("c2"), image, digest("a1"))
		if got := h.took(); got != want || len(h.resolved) > 0 {
			t.Fatalf("%q, want\n%q; asked for %q", got, want, h.resolved)
		}
		h.roll(map[string]string{"web": digest("c2")}, digest("c2"))
		// Tagged by another client: seen by the schedule.
		h.tag(digest("c3"))
		h.day()
		want = fmt.Sprintf("default/web-n1 map[web:%s] before map[web:%s]", digest("c3"), digest("c2"))
		if got := h.took(); got != want {
			t.Fatalf("%q, want\n%q", got, want)
		}
	})
}

// Outside of the maintenance windows nothing is updated, except on request.
// Times that were recorded while the clock was in the future put no check off: neither when the clock is right again,
// nor while it is not set at all.
func TestRecordFromTheFuture(t *testing.T) {
	for name, until := range map[string]time.Time{
		"the clock is right":   time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"the clock is not set": time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC),
	} {
		for failures := range 2 {
			t.Run(fmt.Sprintf("%s, %d failures", name, failures), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *updaterHarness) {
					time.Sleep(time.Until(until))
					future := time.Now().AddDate(3, 0, 0).UTC().Format(time.RFC3339)
					text := fmt.Sprintf(
						`{"version":1,"pods":{"default/web-n1":{"manifest":"u1","since":%[1]q,"attempted":%[1]q,"checked":%[1]q,"failures":%[2]d}}}`, future, failures)
					if err := os.WriteFile(h.file, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					h.start()
					h.add(podinfo.AutoUpdateRegistry, digest("c1"))
					for range 60 {
						h.day()
					}
					if n := len(h.resolved); n < 59 || n > 62 {
						t.Errorf("%d checks in 60 days", n)
					}
				})
			})
		}
	}
}

func TestMaintenanceWindow(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.stored[image] = h.stored[digest("c1")]
		h.start("Sun 02:00-04:00") // the bubble begins on Saturday, 2000-01-01 00:00 UTC
		h.add(podinfo.AutoUpdateLocal, digest("c1"))
		h.tag(digest("c2"))
		h.updater.ImagesLoaded([]string{image})
		h.sleep(26*time.Hour - time.Minute)
		if got := h.took(); got != "" {
			t.Fatalf("at %s: %s", time.Now(), got)
		}
		h.sleep(time.Hour + time.Minute)
		if h.took() == "" {
			t.Fatal("not updated in the window")
		}
		h.roll(map[string]string{"web": digest("c2")}, digest("c2"))
		h.tag(digest("c3"))
		h.sleep(12 * time.Hour)
		if got := h.took(); got != "" {
			t.Fatalf("at %s: %s", time.Now(), got)
		}
		found, err := h.updater.CheckUpdates(t.Context(), []string{"default/web-n1"}, false)
		if err != nil || len(found) != 1 || found[0].Containers[0].State != api.UpdateUpdating || h.took() == "" {
			t.Errorf("on request: %+v, %v", found, err)
		}
	})
}

func TestDryRunChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.start()
		h.add(podinfo.AutoUpdateRegistry, digest("c1"))
		h.push(digest("a2"), digest("c2"))
		before := h.updater.AutoUpdates()[0].Next
		found, err := h.updater.CheckUpdates(t.Context(), nil, true)
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		want := api.ContainerImageUpdate{Container: "web", Image: image, State: api.UpdateAvailable, Running: digest("a1"),
			Latest: digest("a2")}
		if got := found[0].Containers[0]; got != want || h.took() != "" || !found[0].Next.Equal(before) ||
			!found[0].Checked.IsZero() {
			t.Errorf("%+v\nwant %+v", found[0], want)
		}
		if found, _ := h.updater.CheckUpdates(t.Context(), []string{"default/other"}, false); len(found) != 0 {
			t.Errorf("another name: %+v", found)
		}
	})
}

// Containers that cannot be updated are skipped with the reason.
func TestSkippedContainers(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.start()
		h.add(podinfo.AutoUpdateRegistry, digest("c1"), func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "pinned", Image: image + "@" + digest("a1")}}
			p.Spec.Containers = append(p.Spec.Containers,
				v1.Container{Name: "never", Image: image, ImagePullPolicy: v1.PullNever}, v1.Container{Name: "late", Image: image})
		})
		h.push(digest("a2"), digest("c2"))
		found, err := h.updater.CheckUpdates(t.Context(), nil, true)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, r := range found[0].Containers {
			got[r.Container] = strings.TrimSuffix(r.State+" "+r.Message, " ")
		}
		want := map[string]string{
			"pinned": "Skipped the manifest names a digest", "web": "Available", "never": "Skipped imagePullPolicy is Never",
			"late": "Skipped the container has not started yet",
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v\nwant %v", got, want)
		}
	})
}

// A request that fails is shown, and made again.
func TestRequestFails(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.start()
		h.add(podinfo.AutoUpdateRegistry, digest("c1"))
		h.push(digest("a2"), digest("c2"))
		h.fail(nil, errors.New("no manifest declares this pod"))
		h.day()
		if h.state() != api.UpdateFailed || h.took() == "" {
			t.Fatal(h.state())
		}
		h.fail(nil, nil)
		h.day()
		if h.state() != api.UpdateUpdating {
			t.Fatal(h.state())
		}
	})
}

// Without an annotated pod nothing happens, not even by time.
func TestIdleWithoutPods(t *testing.T) {
	bubble(t, func(t *testing.T, h *updaterHarness) {
		h.start()
		for range 365 {
			h.day()
		}
		if h.asked != 1 {
			t.Errorf("asked for pods %d times", h.asked)
		}
	})
}

// A damaged record does not prevent updates. It is moved aside, as is one of a newer version.
func TestDamagedRecord(t *testing.T) {
	for text, suffix := range map[string]string{
		"": ".damaged", "{": ".damaged", `{"version": 0}`: ".damaged", `{"version": 2}`: ".newer",
		`{"version": 2, "pods": []}`:                       ".newer",
		`{"version": 1, "pods": {"default/web-n1": null}}`: "",
	} {
		bubble(t, func(t *testing.T, h *updaterHarness) {
			writeFile(t, h.file, text)
			h.start()
			h.add(podinfo.AutoUpdateRegistry, digest("c1"))
			h.push(digest("a2"), digest("c2"))
			h.day()
			if h.took() == "" {
				t.Errorf("%q: not updated", text)
			}
			for _, other := range []string{".damaged", ".newer"} {
				if data, err := os.ReadFile(h.file + other); (err == nil) != (other == suffix) || err == nil &&
					string(data) != text {
					t.Errorf("%q: in %s is %q, %v", text, other, data, err)
				}
			}
		})
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
