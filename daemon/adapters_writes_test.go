package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
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
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/change"
	"github.com/podstead/podstead/manifest/edit"
	"github.com/podstead/podstead/supervisor/podephemeral"
)

// writeHarness is the Kubernetes API over a real manifest directory, without a runtime: every pod
// that a manifest declares is shown at once.
type writeHarness struct {
	*testing.T
	dir    string
	api    *kubeapi.API
	config *manifest.PodConfig

	mu sync.Mutex
	// keepsRemoved shows pods whose manifest was removed, as if they did not end.
	keepsRemoved bool
	pods         map[types.UID]*v1.Pod
	subs         map[chan struct{}]struct{}
	events       []string
	// ephemeral are the ephemeral containers that were added; verified refuses them.
	ephemeral *podephemeral.Store
	verified  bool
}

func newWriteHarness(t *testing.T, files map[string]string) *writeHarness {
	t.Helper()
	h := &writeHarness{T: t, dir: t.TempDir(), pods: map[types.UID]*v1.Pod{}, subs: map[chan struct{}]struct{}{}}
	for name, text := range files {
		h.write(name, text)
	}
	log := slog.New(slog.DiscardHandler)
	var err error
	if h.ephemeral, err = podephemeral.Open(filepath.Join(t.TempDir(), "ephemeral"), statefile.Disk{}, log); err != nil {
		t.Fatal(err)
	}
	checkpoint, err := manifest.OpenCheckpoint("", log, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.config = manifest.NewPodConfig(manifest.PodConfigOptions{Sources: []manifest.Source{manifest.SourceFile, manifest.SourceHTTP}, Checkpoint: checkpoint, Log: log})
	loader := manifest.NewLoader("n1", manifest.ModeStrict)
	source := manifest.NewFileSource(manifest.FileSourceOptions{
		Path: h.dir, Node: "n1", Rescan: time.Second, Loader: loader, Checkpoint: checkpoint, Deliver: h.config, Log: log, Scanned: func(time.Time) {},
	})
	content, faults := loader.Load(manifest.LoadRequest{Source: manifest.SourceHTTP, Unit: "https://pods.example/remote.yaml",
		Data: []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: remote}\nspec: {containers: [{name: main, image: a}]}\n")})
	if faults.Fatal() {
		t.Fatal(faults)
	}
	h.config.Deliver(manifest.Set{Source: manifest.SourceHTTP, Time: time.Now(), Units: []manifest.Unit{{Name: "https://pods.example/remote.yaml", Content: content}}})
	pods := kubeapi.PodSource(h.list, h.subscribe)
	pods.Revisions = h.config.PodDigests
	h.api = kubeapi.New(kubeapi.Config{
		Versions: kubeapi.OpenVersions(filepath.Join(t.TempDir(), "versions"), statefile.Disk{}), Node: "n1", ManifestName: manifest.BaseName,
		Writer: manifestWriter{
			writer: change.NewWriter(change.Config{Path: h.dir, Node: "n1", Mode: manifest.ModeStrict, Config: h.config}),
			setGrace: func(uid types.UID, seconds *int64) {
				h.mu.Lock()
				defer h.mu.Unlock()
				if seconds != nil {
					h.events = append(h.events, fmt.Sprint("grace ", h.pods[uid].Name, " ", *seconds))
				}
			},
			events: h,
		},
		Ephemeral: ephemeralUpdater{update: h.updateEphemeral, verified: func(manifest.Source) bool { return h.verified }, events: h},
		Sources: kubeapi.Sources{
			Pods:       pods,
			Nodes:      kubeapi.NodeSource(func() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}} }, nil),
			Namespaces: kubeapi.NamespaceSource(func() []string { return nil }, metav1.Now(), nil),
			Events:     kubeapi.EventSource(func() []v1.Event { return nil }, nil),
			ConfigMaps: kubeapi.ObjectSource(h.config.Objects().ConfigMaps, h.config.Objects().Subscribe),
			Secrets:    kubeapi.ObjectSource(h.config.Objects().Secrets, h.config.Objects().Subscribe),
			Claims: kubeapi.ClaimSource(h.config.Objects().Claims, func() []kubeapi.ClaimVolume {
				return []kubeapi.ClaimVolume{{Namespace: "default", Name: "data", Path: "/v"}}
			}, h.config.Objects().Subscribe),
			Volumes: kubeapi.VolumeSource(h.config.Objects().Volumes, h.config.Objects().Claims, func() []kubeapi.ClaimVolume {
				bound := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "usb"}}
				bound.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: "photos"}
				made := bound.DeepCopy()
				made.Name = "default.made"
				return []kubeapi.ClaimVolume{{Namespace: "default", Name: "photos", Volume: bound}, {Namespace: "default", Name: "made", Volume: made}}
			}, h.config.Objects().Subscribe),
			StorageClasses:  kubeapi.ObjectSource(h.config.Objects().StorageClasses, h.config.Objects().Subscribe),
			PriorityClasses: kubeapi.ObjectSource(h.config.Objects().PriorityClasses, h.config.Objects().Subscribe),
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{h.config.Run, source.Run, h.take} {
		all.Go(func() { _ = run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	h.await("the manifests were read", func() bool { return len(h.config.Snapshot()) > 0 && h.config.Snapshot()[0].Delivered })
	return h
}

// take applies the updates of the manifests, as the supervisor does.
func (h *writeHarness) take(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case u := <-h.config.Updates():
			h.mu.Lock()
			for _, pod := range u.Pods {
				switch {
				case u.Op == manifest.Remove && h.keepsRemoved:
					pod = pod.DeepCopy()
					pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
					h.pods[pod.UID] = pod
				case u.Op == manifest.Remove:
					delete(h.pods, pod.UID)
				default:
					h.pods[pod.UID] = pod
				}
			}
			for ch := range h.subs {
				select {
				case ch <- struct{}{}:
				default:
				}
			}
			h.mu.Unlock()
		}
	}
}

func (h *writeHarness) list() (all []*v1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, pod := range h.pods {
		all = append(all, h.ephemeral.With(pod))
	}
	return all
}

// Event implements eventRecorder.
func (h *writeHarness) Event(pod *v1.Pod, _, reason, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pod != nil {
		message = pod.Name + ": " + message
	}
	h.events = append(h.events, reason+" "+message)
}

func (h *writeHarness) subscribe() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[ch] = struct{}{}
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, ch)
	}
}

func (h *writeHarness) await(what string, done func() bool) {
	h.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.Fatalf("timeout: %s", what)
		}
	}
}

func (h *writeHarness) write(name, text string) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
}

func (h *writeHarness) read(name string) string {
	h.Helper()
	data, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		h.Fatal(err)
	}
	return string(data)
}

const (
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	jsonPatch      = "application/json-patch+json"
)

func (h *writeHarness) request(method, path, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	h.api.ServeHTTP(w, r.WithContext(access.WithCaller(r.Context(), access.Caller{User: "ann", Classes: access.RoleEdit.Classes()})))
	return w
}

// must sends a request and checks the answer.
func (h *writeHarness) must(code int, words, method, path, kind, body string) map[string]any {
	h.Helper()
	w := h.request(method, path, kind, body)
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

const (
	sitePod = `# the site
apiVersion: v1
kind: Pod
metadata:
  name: web # short
spec:
  containers:
  - name: main
    image: a:1 # pinned
`
	podPath = "/api/v1/namespaces/default/pods"
	cmPath  = "/api/v1/namespaces/default/configmaps"
)

func TestWritesOfTheAPI(t *testing.T) {
	h := newWriteHarness(t, map[string]string{"site.yaml": sitePod})
	h.await("the pod is shown", func() bool { return h.request("GET", podPath+"/web-n1", "", "").Code == 200 })

	// Either name finds the pod, and a writer sees what kubectl apply needs.
	h.must(200, `"name":"web"`, "GET", podPath+"/web", "", "")
	h.must(200, `"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"annotations\":{},\"name\":\"web\",\"namespace\":\"default\"},\"spec\":{\"containers\":[{\"image\":\"a:1\",\"name\":\"main\"}]}}\n"`, "GET", podPath+"/web", "", "")
	h.must(200, `"name":"web"`, "GET", podPath+"?fieldSelector=metadata.name%3Dweb", "", "")
	h.must(404, "did you mean web-n1?", "GET", podPath+"/wbe-n1", "", "")
	h.must(404, "web-n1 is in namespace default", "GET", "/api/v1/namespaces/other/pods/web", "", "")

	// Every form of a patch, and the whole object.
	h.must(200, `"app":"web"`, "PATCH", podPath+"/web-n1", mergePatch, `{"metadata":{"labels":{"app":"web"}}}`)
	h.must(200, `"image":"a:2"`, "PATCH", podPath+"/web-n1", strategicPatch, `{"spec":{"$setElementOrder/containers":[{"name":"main"}],"containers":[{"name":"main","image":"a:2"}]}}`)
	h.must(200, `"image":"a:3"`, "PATCH", podPath+"/web", jsonPatch, `[{"op":"replace","path":"/spec/containers/0/image","value":"a:3"}]`)
	want := strings.Replace(strings.Replace(sitePod, "a:1", "a:3", 1), " # short\n", " # short\n  labels:\n    app: web\n", 1)
	if got := h.read("site.yaml"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	h.await("the pod is replaced", func() bool {
		return strings.Contains(h.request("GET", podPath, "", "").Body.String(), `"image":"a:3"`)
	})
	exported := h.must(200, "", "GET", podPath+"/web-n1", "", "")
	text, err := json.Marshal(exported)
	if err != nil {
		t.Fatal(err)
	}
	// A status that has changed since is no conflict: clients write none.
	h.mu.Lock()
	for uid, pod := range h.pods {
		if pod.Name == "web-n1" {
			ready := pod.DeepCopy()
			ready.Status.Phase = v1.PodRunning
			h.pods[uid] = ready
		}
	}
	h.mu.Unlock()
	if now := h.request("GET", podPath+"/web-n1", "", "").Body.String(); !strings.Contains(now, `"phase":"Running"`) || strings.Contains(now, fmt.Sprintf(`"resourceVersion":%q`, exported["metadata"].(map[string]any)["resourceVersion"])) {
		t.Errorf("the status has not changed: %s", now)
	}
	h.must(200, `"image":"a:4"`, "PUT", podPath+"/web-n1", "application/json", strings.ReplaceAll(string(text), `"image":"a:3"`, `"image":"a:4"`))
	if got := h.read("site.yaml"); got != strings.Replace(want, "a:3", "a:4", 1) {
		t.Errorf("after PUT:\n%s", got)
	}
	// What was exported before is a conflict now.
	h.must(409, "get it again", "PUT", podPath+"/web-n1", "application/json", string(text))
	h.must(409, "has changed since resourceVersion 1", "PATCH", podPath+"/web", mergePatch, `{"metadata":{"resourceVersion":"1","labels":{"x":"y"}}}`)
	h.must(409, "not other as required", "DELETE", podPath+"/web", "application/json", `{"preconditions":{"uid":"other"}}`)

	h.must(409, "has changed since resourceVersion 1", "DELETE", podPath+"/web", "application/json", `{"gracePeriodSeconds":0,"preconditions":{"resourceVersion":"1"}}`)
	h.mu.Lock()
	if events := strings.Join(h.events, "\n"); strings.Contains(events, "grace ") {
		t.Errorf("a refused deletion set the grace period:\n%s", events)
	}
	h.mu.Unlock()

	// A dry run changes nothing, and shows no difference but that of the client.
	before := h.read("site.yaml")
	h.must(200, `"x":"y"`, "PATCH", podPath+"/web?dryRun=All", mergePatch, `{"metadata":{"labels":{"x":"y"}}}`)
	h.must(200, "deletionTimestamp", "DELETE", podPath+"/web", "application/json", `{"dryRun":["All"]}`)
	h.must(201, `"name":"new-n1"`, "POST", podPath+"?dryRun=All", "application/json", `{"metadata":{"name":"new"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	h.must(200, "deletionTimestamp", "DELETE", podPath+"/web?dryRun=All", "application/json", `{"dryRun":[""]}`)
	h.must(201, `"name":"new-n1"`, "POST", podPath+"?dryRun=&dryRun=All", "application/json", `{"metadata":{"name":"new"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	h.must(422, "must be All", "POST", podPath+"?dryRun=some", "application/json", `{"metadata":{"name":"new"}}`)
	if got := h.read("site.yaml"); got != before {
		t.Errorf("after dry runs:\n%s", got)
	}

	// New objects.
	h.must(201, `"name":"db-n1"`, "POST", podPath, "application/json", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"db","creationTimestamp":null},"spec":{"containers":[{"name":"a","image":"b","resources":{}}]},"status":{}}`)
	h.must(409, "already exists", "POST", podPath, "application/json", `{"metadata":{"name":"db"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	h.must(409, "already exists", "POST", podPath, "application/json", `{"metadata":{"name":"web-n1"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	if got := h.read("db.yaml"); strings.Contains(got, "status") || strings.Contains(got, "creationTimestamp") || !strings.Contains(got, "name: db\n") {
		t.Errorf("the new manifest:\n%s", got)
	}
	h.must(201, `"uid":"configmap-default-site"`, "POST", cmPath, "application/json", `{"metadata":{"name":"site"},"data":{"color":"red"}}`)
	h.must(200, `"color":"blue"`, "PATCH", cmPath+"/site", mergePatch, `{"data":{"color":"blue"}}`)
	h.must(200, `"color":"blue"`, "GET", cmPath+"/site", "", "")
	// Characters that a YAML text must not have as they are.
	h.must(200, "", "PATCH", cmPath+"/site", mergePatch, `{"data":{"color":"a\u007fb\u0085c\u0001"}}`)
	if data := h.must(200, "", "GET", cmPath+"/site", "", "")["data"].(map[string]any); data["color"] != "a\u007fb\u0085c\u0001" {
		t.Errorf("the value is %q", data["color"])
	}
	// What only the API shows of a claim does not get into its manifest.
	claims := "/api/v1/namespaces/default/persistentvolumeclaims"
	h.must(201, `"name":"data"`, "POST", claims, "application/json", `{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	claim := h.must(200, `"volumeName":"default.data"`, "GET", claims+"/data", "", "")
	claim["metadata"].(map[string]any)["labels"] = map[string]any{"a": "b"}
	if text, err = json.Marshal(claim); err != nil {
		t.Fatal(err)
	}
	h.must(200, `"a":"b"`, "PUT", claims+"/data", "application/json", string(text))
	h.must(200, `"a":"c"`, "PATCH", claims+"/data", mergePatch, `{"metadata":{"labels":{"a":"c"}}}`)
	if got := h.read("data-persistentvolumeclaim.yaml"); strings.Contains(got, "volumeName") || !strings.Contains(got, "a: c") {
		t.Errorf("the manifest of the claim:\n%s", got)
	}
	// The same of a volume.
	volumes := "/api/v1/persistentvolumes"
	h.must(201, `"name":"usb"`, "POST", volumes, "application/json", `{"metadata":{"name":"usb"},"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/usb"}}}`)
	volume := h.must(200, `"name":"photos"`, "GET", volumes+"/usb", "", "")
	volume["metadata"].(map[string]any)["labels"] = map[string]any{"a": "b"}
	if text, err = json.Marshal(volume); err != nil {
		t.Fatal(err)
	}
	h.must(200, `"phase":"Released"`, "PUT", volumes+"/usb", "application/json", string(text))
	if got := h.read("usb-persistentvolume.yaml"); strings.Contains(got, "claimRef") || strings.Contains(got, "status") || !strings.Contains(got, "a: b") {
		t.Errorf("the manifest of the volume:\n%s", got)
	}
	h.must(422, "has become the CSI driver cephfs.csi.ceph.com", "POST", volumes, "application/json", `{"metadata":{"name":"x"},"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"cephfs":{"monitors":["a"]}}}`)
	h.must(200, `"Success"`, "DELETE", volumes+"/usb", "", "")
	if got := h.request("DELETE", volumes+"/default.made", "", ""); got.Code < 400 || !strings.Contains(got.Body.String(), "default.made") {
		t.Errorf("deleting a volume that no manifest declares: %d %s", got.Code, got.Body)
	}
	classes := "/apis/storage.k8s.io/v1/storageclasses"
	h.must(201, `"provisioner":"podstead.io/directory"`, "POST", classes, "application/json", `{"metadata":{"name":"ssd"},"provisioner":"podstead.io/directory","parameters":{"path":"/mnt/ssd"}}`)
	h.must(200, `"path":"/mnt/nvme"`, "PATCH", classes+"/ssd", mergePatch, `{"parameters":{"path":"/mnt/nvme"}}`)
	h.must(200, `"Success"`, "DELETE", classes+"/ssd", "", "")
	h.must(201, `"value":1000`, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", "application/json", `{"metadata":{"name":"high"},"value":1000}`)
	h.must(200, `"description":"x"`, "PATCH", "/apis/scheduling.k8s.io/v1/priorityclasses/high", mergePatch, `{"description":"x"}`)
	h.must(200, `"Success"`, "DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/high", "", "")
	h.must(201, `"a":"b25l"`, "POST", "/api/v1/namespaces/default/secrets", "application/json", `{"metadata":{"name":"login"},"stringData":{"a":"one"}}`)

	// Deletion.
	h.must(200, `"deletionTimestamp"`, "DELETE", podPath+"/db", "application/json", `{"gracePeriodSeconds":1}`)
	h.must(200, `"status":"Success"`, "DELETE", cmPath+"/site", "", "")
	h.await("the ConfigMap is gone", func() bool { return h.request("GET", cmPath+"/site", "", "").Code == 404 })
	if _, err := os.Stat(filepath.Join(h.dir, "db.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("db.yaml: %v", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	events := strings.Join(h.events, "\n")
	for _, e := range []string{"ManifestChanged web-n1: Pod default/web configured in " + filepath.Join(h.dir, "site.yaml") + " by ann through the API", "ConfigMap default/site created", "Pod default/db deleted", "grace db-n1 1"} {
		if !strings.Contains(events, e) {
			t.Errorf("no event %q in\n%s", e, events)
		}
	}
}

// A pod whose manifest was removed ends for a while. kubectl apply of a file asks for the pod under the
// name in the manifest, and creates it again if there is none.
func TestApplyAfterDelete(t *testing.T) {
	h := newWriteHarness(t, map[string]string{"site.yaml": sitePod})
	h.await("the pod is shown", func() bool { return h.request("GET", podPath+"/web-n1", "", "").Code == 200 })
	h.mu.Lock()
	h.keepsRemoved = true
	h.mu.Unlock()
	h.must(200, "", "DELETE", podPath+"/web", "", "")
	h.must(404, "did you mean web-n1?", "GET", podPath+"/web", "", "")
	h.must(200, `"name":"web-n1"`, "GET", podPath+"/web-n1", "", "")
	h.must(201, `"name":"web-n1"`, "POST", podPath, "application/json", `{"metadata":{"name":"web"},"spec":{"containers":[{"name":"main","image":"b"}]}}`)
	h.must(200, `"image":"b"`, "GET", podPath+"/web", "", "")
}

func TestRefusedWritesOfTheAPI(t *testing.T) {
	h := newWriteHarness(t, map[string]string{"site.yaml": sitePod})
	h.await("the pods are shown", func() bool {
		return h.request("GET", podPath+"/web-n1", "", "").Code == 200 && h.request("GET", podPath+"/remote-n1", "", "").Code == 200
	})
	const pod = `"spec":{"containers":[{"name":"a","image":"b"}]}}`
	for _, c := range []struct {
		code                            int
		words, method, path, kind, body string
	}{
		{403, "comes from https://pods.example/remote.yaml; change it there", "PATCH", podPath + "/remote-n1", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`},
		{403, "comes from https://pods.example/remote.yaml; change it there", "DELETE", podPath + "/remote", "", ""},
		{409, "already exists", "POST", podPath, "application/json", `{"metadata":{"name":"remote"},` + pod},
		{422, "spec.restartPolicy", "PATCH", podPath + "/web", mergePatch, `{"spec":{"restartPolicy":"Sometimes"}}`},
		{422, "restartPolicies", "PATCH", podPath + "/web", mergePatch, `{"spec":{"restartPolicies":"Always"}}`},
		{422, "spec.containers", "POST", podPath, "application/json", `{"metadata":{"name":"x"},"spec":{}}`},
		{422, "not generated", "POST", podPath, "application/json", `{"metadata":{"generateName":"x-"},` + pod},
		{400, "metadata.namespace", "POST", podPath, "application/json", `{"metadata":{"name":"x","namespace":"other"},` + pod},
		{400, "must not be set", "POST", podPath, "application/json", `{"metadata":{"name":"x","resourceVersion":"1"},` + pod},
		{400, "must be Pod", "POST", podPath, "application/json", `{"kind":"Job","metadata":{"name":"x"},` + pod},
		{400, "as JSON", "POST", podPath, "application/json", `{"metadata":`},
		{400, "as JSON", "POST", podPath, "application/json", `null`},
		{400, "cannot be decoded", "POST", podPath, "application/vnd.kubernetes.protobuf", "k8s\x00garbage"},
		{415, "application/json", "POST", podPath, "application/yaml", "metadata: {name: x}"},
		// What a page of another site can send without asking first.
		{415, "application/json", "POST", podPath, "text/plain", "k8s\x00garbage"},
		{413, "larger than", "POST", podPath, "application/json", `{"metadata":{"name":"` + strings.Repeat("x", 1<<20) + `"}}`},
		{415, "server-side apply is not supported", "PATCH", podPath + "/web", "application/apply-patch+yaml", "{}"},
		{415, "must be", "PATCH", podPath + "/web", "application/json", "{}"},
		{422, "cannot be applied", "PATCH", podPath + "/web", jsonPatch, `[{"op":"test","path":"/spec/containers/0/image","value":"z"}]`},
		{422, "cannot be applied", "PATCH", podPath + "/web", strategicPatch, `{"spec":{"containers":[{"image":"x"}]}}`},
		{422, "metadata.name", "PATCH", podPath + "/web", mergePatch, `{"metadata":{"name":"other"}}`},
		{422, "metadata", "PATCH", podPath + "/web", mergePatch, `{"metadata":null}`},
		{422, "must not be negative", "DELETE", podPath + "/web", "application/json", `{"gracePeriodSeconds":-1}`},
		{404, `pods \"none\" not found`, "DELETE", podPath + "/none", "", ""},
		{404, `pods \"none\" not found`, "PATCH", podPath + "/none", mergePatch, "{}"},
		{404, `configmaps \"none\" not found`, "PUT", cmPath + "/none", "application/json", `{"metadata":{"name":"none"}}`},
		{405, "one by one", "DELETE", podPath, "", ""},
		{405, "a namespace exists while", "POST", "/api/v1/namespaces", "application/json", `{"metadata":{"name":"x"}}`},
		{405, "flags", "PATCH", "/api/v1/nodes/n1", mergePatch, `{}`},
	} {
		h.must(c.code, c.words, c.method, c.path, c.kind, c.body)
	}
	// A manifest that is broken now is corrected first; its pod goes on.
	h.write("site.yaml", sitePod+"a: [\n")
	h.await("the broken manifest was read", func() bool { return len(h.config.Faults()) > 0 })
	h.must(403, "correct the file first", "PATCH", podPath+"/web", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`)
	entries, err := os.ReadDir(h.dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A body without a type is that of an old kubectl, or of a page of another site, which a browser names.
func TestWriteWithoutContentType(t *testing.T) {
	h := newWriteHarness(t, nil)
	send := func(origin string) int {
		r := httptest.NewRequest("POST", podPath, strings.NewReader(`{"metadata":{"name":"untyped"},"spec":{"containers":[{"name":"a","image":"b"}]}}`))
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		h.api.ServeHTTP(w, r.WithContext(access.WithCaller(r.Context(), access.Caller{User: "ann", Classes: access.RoleEdit.Classes()})))
		return w.Code
	}
	if code := send("https://other.example"); code != 415 {
		t.Errorf("from a page: %d, want 415", code)
	}
	if code := send(""); code != 201 {
		t.Errorf("from kubectl: %d, want 201", code)
	}
}

// A client that reads, changes and writes an object with its resourceVersion gets a conflict
// where podstead apply was faster, and loses nothing.
func TestConflictsOfTheAPIAndByHand(t *testing.T) {
	const rounds = 20
	h := newWriteHarness(t, map[string]string{"c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  api: \"0\"\n  hand: \"0\"\n"})
	h.await("the ConfigMap is shown", func() bool { return h.request("GET", cmPath+"/c", "", "").Code == 200 })
	next := func(object map[string]any, key string) string {
		text, _ := object["data"].(map[string]any)[key].(string)
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Error(err)
		}
		return strconv.Itoa(n + 1)
	}
	conflicts := 0
	var both sync.WaitGroup
	both.Go(func() {
		for done := 0; done < rounds && !t.Failed(); {
			object, err := objectpatch.Decode(h.request("GET", cmPath+"/c", "", "").Body.Bytes())
			if err != nil {
				t.Error(err)
				return
			}
			object["data"].(map[string]any)["api"] = next(object, "api")
			text, err := json.Marshal(object)
			if err != nil {
				t.Error(err)
				return
			}
			switch w := h.request("PUT", cmPath+"/c", "application/json", string(text)); w.Code {
			case http.StatusOK:
				done++
			case http.StatusConflict:
				conflicts++
			default:
				t.Errorf("PUT: %d %s", w.Code, w.Body)
			}
		}
	})
	both.Go(func() {
		ref := manifest.ObjectRef{Kind: manifest.KindConfigMap, Namespace: "default", Name: "c"}
		for done := 0; done < rounds && !t.Failed(); {
			d, err := edit.Read(h.dir)
			if err == nil {
				var found edit.Found
				if found, err = d.Find(ref); err == nil {
					var doc edit.Document
					doc, err = edit.New(objectpatch.Merge(found.Value, map[string]any{"data": map[string]any{"hand": next(found.Value, "hand")}}))
					if err == nil {
						_, err = d.Merge(doc)
					}
				}
			}
			if err == nil {
				err = d.Commit(t.Context())
			}
			switch {
			case err == nil:
				done++
				time.Sleep(time.Millisecond) // lets the other writer have its turn
			case !errors.Is(err, edit.ErrChanged):
				t.Error(err)
			}
		}
	})
	both.Wait()
	if got, want := h.read("c.yaml"), "  api: \""+strconv.Itoa(rounds)+"\"\n  hand: \""+strconv.Itoa(rounds)+"\"\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	t.Logf("%d conflicts", conflicts)
}
