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

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// world is a runtime and its events.
type world struct {
	mu       sync.Mutex
	pods     []*cri.Pod
	at       time.Time
	failing  map[types.UID]bool
	removed  []string
	recorded []string
	logs     string
}

func (w *world) Observed() *cri.Observed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &cri.Observed{Own: w.pods, At: w.at}
}

func (w *world) Remove(_ context.Context, pod *cri.Pod) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing[pod.UID] {
		return errors.New("it is stuck")
	}
	gone := map[string]bool{}
	for _, c := range pod.Containers {
		gone[c.ID] = true
		w.removed = append(w.removed, c.ID)
	}
	for _, b := range pod.Sandboxes {
		gone[b.ID] = true
		w.removed = append(w.removed, string(pod.UID)+":"+b.ID)
	}
	for i, old := range w.pods {
		if old.UID == pod.UID {
			next := *old
			next.Containers = slices.DeleteFunc(slices.Clone(old.Containers), func(c cri.Container) bool { return gone[c.ID] })
			next.Sandboxes = slices.DeleteFunc(slices.Clone(old.Sandboxes), func(b cri.Sandbox) bool { return gone[b.ID] })
			w.pods[i] = &next
		}
	}
	return nil
}

func (w *world) Event(pod *v1.Pod, eventType, reason, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recorded = append(w.recorded, fmt.Sprint(pod == nil, " ", eventType, " ", reason, ": ", message))
}

func (w *world) eventTexts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.recorded)
}

func (w *world) gone() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.removed)
	return strings.Join(w.removed, " ")
}

func (w *world) set(pods ...*cri.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods, w.at = pods, time.Now()
}

// collector runs a collector of w's dead containers until the test ends.
func collector(t *testing.T, w *world, policy ContainerPolicy, except ...types.UID) *Containers {
	t.Helper()
	w.logs = t.TempDir()
	g := NewContainers(ContainersConfig{
		Policy: policy, Runtime: w, Events: w,
		Collectable: func(uid types.UID) bool { return !slices.Contains(except, uid) },
		Files: Files{
			Logs: filepath.Join(w.logs, "pods"), Links: filepath.Join(w.logs, "containers"),
			Messages: func(uid types.UID) string { return filepath.Join(w.logs, "root", string(uid), "containers") },
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return g
}

func TestUncollectablePodsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		g := collector(t, w, ContainerPolicy{}, "http1")
		g.Wake() // before the first list
		synctest.Wait()
		dead := "s2=ready s1=dead web/2=running@s2 web/1=exited@s2 web/0=exited@s1"
		w.set(podOf("http1", dead), podOf("file1", dead))
		g.Wake()
		synctest.Wait()
		if got := w.gone(); got != "file1:s1 file1:web/0" {
			t.Errorf("removed %q", got)
		}
	})
}

func TestOneFailureDoesNotStopTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{failing: map[types.UID]bool{"p1": true}}
		g := collector(t, w, ContainerPolicy{})
		dead := "s1=ready web/2=running@s1 web/1=exited@s1 web/0=exited@s1"
		w.set(podOf("p0", dead), podOf("p1", dead), podOf("p2", dead))
		g.Wake()
		synctest.Wait()
		if got := w.gone(); got != "p0:web/0 p2:web/0" {
			t.Errorf("removed %q", got)
		}
		if len(w.eventTexts()) != 1 || !strings.HasPrefix(w.eventTexts()[0], "true Warning ContainerGCFailed: ") ||
			!strings.Contains(w.eventTexts()[0], "default/p1: it is stuck") {
			t.Errorf("events %q", w.eventTexts())
		}
		// It is tried again by itself.
		w.mu.Lock()
		w.failing = nil
		w.mu.Unlock()
		time.Sleep(retryPeriod + time.Second)
		synctest.Wait()
		if got := w.gone(); got != "p0:web/0 p1:web/0 p2:web/0" {
			t.Errorf("removed in the end %q", got)
		}
	})
}

// When space is short, ended pods lose what other pods keep, and one that cannot be
// removed does not block the others.
func TestReclaimRemovesEndedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{failing: map[types.UID]bool{"stuck": true}}
		g := collector(t, w, ContainerPolicy{}, "http1")
		g.cfg.RunState = func(uid types.UID) RunState {
			return map[types.UID]RunState{"job": RunEndedForGood, "stuck": RunEndedForGood, "http1": RunEndedForGood,
				"evicted": RunEndedWillRestart}[uid]
		}
		if n, err := g.Reclaim(t.Context()); n != 0 || err != nil {
			t.Errorf("before the first observed: %d, %v", n, err)
		}
		ended := "s1=dead web/1=exited@s1 web/0=exited@s1"
		w.set(podOf("job", ended), podOf("stuck", ended), podOf("evicted", ended), podOf("http1", ended),
			podOf("web", "s1=ready web/2=running@s1 web/1=exited@s1 web/0=exited@s1"))
		touch(t, filepath.Join(w.logs, "pods", "default_job_job", "web", "1.log"),
			filepath.Join(w.logs, "pods", "default_web_web", "web", "1.log"))
		n, err := g.Reclaim(t.Context())
		if err == nil || !strings.Contains(err.Error(), "default/stuck: it is stuck") || n != 6 {
			t.Errorf("%d went: %v", n, err)
		}
		if got, want := w.gone(), "evicted:web/0 evicted:web/1 job:s1 job:web/0 job:web/1 web:web/0"; got != want {
			t.Errorf("removed %q, want %q", got, want)
		}
		if got, want := tree(t, filepath.Join(w.logs, "pods")), "default_web_web/web/1.log"; got != want {
			t.Errorf("logs are %q, want %q", got, want)
		}
	})
}

func TestMinAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		g := collector(t, w, ContainerPolicy{MinAge: 10 * time.Minute})
		pod := podOf("p", "s1=ready web/2=running@s1 web/1=exited@s1 web/0=exited@s1")
		for i := range pod.Containers {
			pod.Containers[i].CreatedAt = time.Now()
		}
		w.set(pod)
		g.Wake()
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		if got := w.gone(); got != "" {
			t.Errorf("too early: %q", got)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := w.gone(); got != "p:web/0" {
			t.Errorf("removed %q", got)
		}
	})
}

// tree are the files below a directory, with links and their targets.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " ")
}

func touch(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesAreRemovedWithContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		g := collector(t, w, ContainerPolicy{})
		logs := filepath.Join(w.logs, "pods", "default_p_p", "web")
		messages := filepath.Join(w.logs, "root", "p", "containers", "web")
		links := filepath.Join(w.logs, "containers")
		for _, name := range []string{
			"0.log", "1.log", "1.log.20260101-000000.gz", "2.log", "2.log.20260101-000000", // removed before, or by this round
			"3.log", "4.log", "4.log.20260101-000000", "notes.txt",
		} {
			touch(t, filepath.Join(logs, name))
		}
		touch(t, filepath.Join(messages, "one"), filepath.Join(messages, "two"), filepath.Join(messages, "orphan"),
			filepath.Join(messages, "new"))
		old := time.Now().Add(-2 * time.Hour)
		for _, name := range []string{"one", "two", "orphan"} {
			if err := os.Chtimes(filepath.Join(messages, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(filepath.Join(messages, "new"), time.Now(), time.Now()); err != nil {
			t.Fatal(err)
		}
		touch(t, filepath.Join(links, "keep.txt"))
		for link, target := range map[string]string{
			"p_default_web-0.log": filepath.Join(logs, "0.log"), "p_default_web-4.log": filepath.Join(logs, "4.log"),
			"gone_default_web-1.log": filepath.Join(w.logs, "pods", "default_gone_x", "web", "0.log"), // its pod is gone
			"rotating_web-1.log":     filepath.Join(logs, "9.log"),
			"theirs.log":             "/somewhere/else/web/0.log",
		} {
			if err := os.Symlink(target, filepath.Join(links, link)); err != nil {
				t.Fatal(err)
			}
		}
		pod := podOf("p", "s1=ready web/4=running@s1 web/3=exited@s1 web/2=exited@s1")
		pod.Containers[0].TerminationMessageHost = filepath.Join(messages, "one")
		pod.Containers[2].TerminationMessageHost = filepath.Join(messages, "two")
		pod.Containers[1].TerminationMessageHost = "/etc/passwd" // as a runtime might say
		w.set(pod)
		g.Wake()
		synctest.Wait()
		if got, want := tree(t, filepath.Join(w.logs, "pods")), strings.Join([]string{
			"default_p_p/web/3.log", "default_p_p/web/4.log", "default_p_p/web/4.log.20260101-000000",
			"default_p_p/web/notes.txt"}, " "); got != want {
			t.Errorf("logs are %s\nwant %s", got, want)
		}
		if got, want := tree(t, messages), "new one"; got != want {
			t.Errorf("messages are %q, want %q", got, want)
		}
		if got, want := tree(t, links), "keep.txt p_default_web-4.log rotating_web-1.log theirs.log"; got != want {
			t.Errorf("links are %q, want %q", got, want)
		}
	})
}

// A runtime that forgot its containers at a reboot leaves their logs: the
// newest two of each container stay.
func TestLogsOfForgottenContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		g := collector(t, w, ContainerPolicy{})
		for i := range 30 {
			touch(t, filepath.Join(w.logs, "pods", "default_p_p", "web", fmt.Sprint(i, ".log")))
		}
		touch(t, filepath.Join(w.logs, "pods", "default_other_x", "web", "0.log"))
		w.set(podOf("p", "s1=ready web/29=running@s1"))
		g.Wake()
		synctest.Wait()
		if got, want := tree(t, filepath.Join(w.logs, "pods")),
			"default_other_x/web/0.log default_p_p/web/28.log default_p_p/web/29.log"; got != want {
			t.Errorf("logs are %q, want %q", got, want)
		}
	})
}
