// Package manifestapi serves the Kubernetes API over a real manifest directory, for tests of what changes manifests and
// ephemeral containers. It has no runtime: every pod that a manifest declares is shown at once.
package manifestapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/internal/objectpatch"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/change"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/podephemeral"
)

// Harness is the Kubernetes API over a real manifest directory.
type Harness struct {
	*testing.T
	Dir    string
	API    *kubeapi.API
	Config *manifest.PodConfig

	// Mu protects the fields below.
	Mu sync.Mutex
	// changed notifies of changes of the pods.
	changed wakeup.Broadcast
	// KeepsRemoved shows pods whose manifest was removed, as if they did not end.
	KeepsRemoved bool
	// Pods are those that are shown.
	Pods map[types.UID]*v1.Pod
	// Events are those that were recorded, and the grace periods that were set.
	Events []string
	// Ephemeral are the ephemeral containers that were added. Verified refuses them.
	Ephemeral *podephemeral.Store
	Verified  bool
}

// New returns a Harness over a new directory with some files.
func New(t *testing.T, files map[string]string) *Harness {
	t.Helper()
	h := &Harness{T: t, Dir: t.TempDir(), Pods: map[types.UID]*v1.Pod{}}
	for name, text := range files {
		h.Write(name, text)
	}
	log := slog.New(slog.DiscardHandler)
	var err error
	if h.Ephemeral, err = podephemeral.Open(filepath.Join(t.TempDir(), "ephemeral"), statefile.Disk{}, log); err != nil {
		t.Fatal(err)
	}
	checkpoint, err := manifest.OpenCheckpoint("", log, statefile.Disk{})
	if err != nil {
		t.Fatal(err)
	}
	h.Config = manifest.NewPodConfig(
		manifest.PodConfigOptions{Sources: []manifest.Source{manifest.SourceFile, manifest.SourceHTTP},
			Checkpoint: checkpoint, Log: log})
	loader := manifest.NewLoader("n1", manifest.ModeStrict)
	source := manifest.NewFileSource(manifest.FileSourceOptions{
		Path: h.Dir, Node: "n1", Rescan: time.Second, Loader: loader, Checkpoint: checkpoint, Deliver: h.Config, Log: log,
		Scanned: func(time.Time) {},
	})
	content, faults := loader.Load(
		manifest.LoadRequest{Source: manifest.SourceHTTP, Unit: "https://pods.example/remote.yaml",
			Data: []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: remote}\nspec: {containers: [{name: main, image: a}]}\n")})
	if faults.Fatal() {
		t.Fatal(faults)
	}
	h.Config.Deliver(manifest.Set{Source: manifest.SourceHTTP, Time: time.Now(),
		Units: []manifest.Unit{{Name: "https://pods.example/remote.yaml", Content: content}}})
	pods := kubeapi.PodSource(h.list, h.changed.Subscribe)
	pods.Revisions = h.Config.PodDigests
	h.API = kubeapi.New(kubeapi.Config{
		Versions: kubeapi.OpenVersions(filepath.Join(t.TempDir(), "versions"), statefile.Disk{}), Node: "n1",
		ManifestName: manifest.BaseName,
		Writer: change.NewWriter(change.Config{
			Path: h.Dir, Node: "n1", Mode: manifest.ModeStrict, Config: h.Config, Events: recorder{h},
			Grace: func(uid types.UID, seconds *int64) {
				h.Mu.Lock()
				defer h.Mu.Unlock()
				if seconds != nil {
					h.Events = append(h.Events, fmt.Sprint("grace ", h.Pods[uid].Name, " ", *seconds))
				}
			},
		}),
		Ephemeral: podephemeral.Requests{Update: h.updateEphemeral,
			Verified: func(manifest.Source) bool { return h.Verified }, Events: recorder{h}},
		Sources: kubeapi.Sources{
			Pods:       pods,
			Nodes:      kubeapi.NodeSource(func() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}} }, nil),
			Namespaces: kubeapi.NamespaceSource(func() []string { return nil }, metav1.Now(), nil),
			Events:     kubeapi.EventSource(func() []v1.Event { return nil }, nil),
			ConfigMaps: kubeapi.ObjectSource(h.Config.Objects().ConfigMaps, h.Config.Objects().Subscribe),
			Secrets:    kubeapi.ObjectSource(h.Config.Objects().Secrets, h.Config.Objects().Subscribe),
			Claims: kubeapi.ClaimSource(h.Config.Objects().Claims, func() []kubeapi.ClaimVolume {
				return []kubeapi.ClaimVolume{{Namespace: "default", Name: "data", Path: "/v"}}
			}, h.Config.Objects().Subscribe),
			Volumes: kubeapi.VolumeSource(h.Config.Objects().Volumes, h.Config.Objects().Claims, func() []kubeapi.ClaimVolume {
				bound := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "usb"}}
				bound.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default",
					Name: "photos"}
				made := bound.DeepCopy()
				made.Name = "default.made"
				return []kubeapi.ClaimVolume{{Namespace: "default", Name: "photos", Volume: bound},
					{Namespace: "default", Name: "made", Volume: made}}
			}, h.Config.Objects().Subscribe),
			StorageClasses:  kubeapi.ObjectSource(h.Config.Objects().StorageClasses, h.Config.Objects().Subscribe),
			PriorityClasses: kubeapi.ObjectSource(h.Config.Objects().PriorityClasses, h.Config.Objects().Subscribe),
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{h.Config.Run, source.Run, h.applyUpdates} {
		all.Go(func() { _ = run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	h.Await("the manifests were read",
		func() bool { return len(h.Config.Snapshot()) > 0 && h.Config.Snapshot()[0].Delivered })
	return h
}

// applyUpdates applies the updates of the manifests, as the supervisor does.
func (h *Harness) applyUpdates(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case u := <-h.Config.Updates():
			h.Mu.Lock()
			for _, pod := range u.Pods {
				switch {
				case u.Op == manifest.Remove && h.KeepsRemoved:
					pod = pod.DeepCopy()
					pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
					h.Pods[pod.UID] = pod
				case u.Op == manifest.Remove:
					delete(h.Pods, pod.UID)
				default:
					h.Pods[pod.UID] = pod
				}
			}
			h.Mu.Unlock()
			h.changed.Notify()
		}
	}
}

func (h *Harness) list() (all []*v1.Pod) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for _, pod := range h.Pods {
		all = append(all, h.Ephemeral.With(pod))
	}
	return all
}

// recorder records events, as change.Events.
type recorder struct{ h *Harness }

// Event implements change.Events.
func (r recorder) Event(pod *v1.Pod, _, reason, message string) {
	r.h.Mu.Lock()
	defer r.h.Mu.Unlock()
	if pod != nil {
		message = pod.Name + ": " + message
	}
	r.h.Events = append(r.h.Events, reason+" "+message)
}

// Await waits until something is done.
func (h *Harness) Await(what string, done func() bool) {
	h.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.Fatalf("timeout: %s", what)
		}
	}
}

// Write writes a manifest.
func (h *Harness) Write(name, text string) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
}

// Read reads a manifest.
func (h *Harness) Read(name string) string {
	h.Helper()
	data, err := os.ReadFile(filepath.Join(h.Dir, name))
	if err != nil {
		h.Fatal(err)
	}
	return string(data)
}

// The types of patches.
const (
	MergePatch     = "application/merge-patch+json"
	StrategicPatch = "application/strategic-merge-patch+json"
	JSONPatch      = "application/json-patch+json"
)

// Request sends a request of a user who may write.
func (h *Harness) Request(method, path, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	h.API.ServeHTTP(w,
		r.WithContext(access.WithCaller(r.Context(), access.Caller{User: "ann", Classes: access.RoleEdit.Classes()})))
	return w
}

// Must sends a request and checks the response.
func (h *Harness) Must(code int, words, method, path, kind, body string) map[string]any {
	h.Helper()
	w := h.Request(method, path, kind, body)
	if w.Code != code || !strings.Contains(w.Body.String(), words) {
		h.Errorf("%s %s %s: %d %s\nwant %d and %q", method, path, body, w.Code, w.Body, code, words)
	}
	object, err := objectpatch.Decode(w.Body.Bytes())
	if err != nil {
		h.Errorf("%s %s: %v", method, path, err)
	}
	if code >= 400 && (object["kind"] != "Status" || object["details"] == nil) {
		h.Errorf("%s %s: no Status with details: %s", method, path, w.Body)
	}
	return object
}

// updateEphemeral changes the ephemeral containers as the supervisor does.
func (h *Harness) updateEphemeral(uid types.UID, change func(*v1.Pod) ([]v1.EphemeralContainer, error)) error {
	return h.Ephemeral.Update(uid, func([]v1.EphemeralContainer) ([]v1.EphemeralContainer, error) {
		for _, pod := range h.list() {
			switch {
			case pod.UID != uid:
			case strings.HasPrefix(pod.Name, "ended"):
				return nil, supervisor.ErrPodEnded
			default:
				return change(pod)
			}
		}
		return nil, supervisor.ErrNoSuchPod
	})
}

// A manifest of one pod, and the paths of pods and ConfigMaps.
const (
	SitePod = `# the site
apiVersion: v1
kind: Pod
metadata:
  name: web # short
spec:
  containers:
  - name: main
    image: a:1 # pinned
`
	PodPath       = "/api/v1/namespaces/default/pods"
	ConfigMapPath = "/api/v1/namespaces/default/configmaps"
)
