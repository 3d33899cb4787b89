package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/httpapi/access"
)

var update = flag.Bool("update", false, "rewrite the golden files in api/testdata")

// wireTime returns a time of the content.
func wireTime(minute int) time.Time { return time.Date(2026, 1, 31, 12, minute, 0, 0, time.UTC) }

// wireSources responds with one value of each type in which every field is set, and one in which none is:
// the golden files show each field, and which of them are left out.
type wireSources struct{ fakeSources }

var wireRollout = api.Rollout{
	Namespace: "default", Name: "web-n1", UID: "u-2", State: "RolledBack", Revision: "1111111111", Candidate: "2222222222",
	LastGood: "1111111111",
	Manifest: "7c1f9d0e7c1f9d0e", Reason: "RolledBack",
	Message: `revision 2222222222 failed: container "web": <none> & gone`,
	Since:   wireTime(1), Deadline: wireTime(2),
	Images: map[string]string{"web": "docker.io/library/web@sha256:12", "side": "side:1"},
}

var wireImage = api.Image{
	Name: "docker.io/library/web:1", ID: "sha256:0123456789abcdef",
	Tags: []string{"docker.io/library/web:1", "web:latest"}, Size: 5 << 20,
	State: "unused", Pulled: wireTime(3), LastUsed: wireTime(4), Error: "failed to remove image: it is stuck",
}

var (
	available, used = uint64(6 << 20), uint64(2 << 20)
	wireUsage       = api.VolumeUsage{Capacity: 8 << 20, Available: &available, Used: &used, Incomplete: true,
		Limit: 4 << 20}
)

var wireUpdates = []api.AutoUpdate{
	{
		Namespace: "default", Name: "web-n1", Policy: "registry", Checked: wireTime(5), Next: wireTime(6),
		Containers: []api.ContainerImageUpdate{
			{Container: "web", Image: "web:1", State: "Failed", Running: "sha256:12", Latest: "sha256:34",
				Message: "cannot ask the registry"}, {},
		},
	},
	{Containers: []api.ContainerImageUpdate{}},
}

func (wireSources) Pods() []*v1.Pod {
	pod := func(namespace, name, uid string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(uid),
			Annotations: map[string]string{"podstead.io/auto-update": "registry"},
		}}
	}
	return []*v1.Pod{pod("default", "web-n1", "u-2"), pod("default", "starting-n1", "u-3"), pod("shop", "db-n1", "u-4")}
}

func (wireSources) PodStart(uid types.UID) (api.PodStart, bool) {
	if uid == "u-2" {
		return api.PodStart{Seconds: 0.25,
			Steps: []api.StartStep{{Name: "sandbox", Seconds: 0.125}, {Name: "start", Seconds: 0.0625}}}, true
	}
	return api.PodStart{Steps: []api.StartStep{}}, uid == "u-4"
}

func (wireSources) Manifests() []api.ManifestSource {
	return []api.ManifestSource{
		{
			Source: "file", Location: "/etc/pods", Delivered: true, Incomplete: []string{"/etc/pods/bad.yaml"},
			Ignored: []string{"notes.txt"}, Time: wireTime(7),
			Fault: "cannot read /etc/pods", Warning: "it is slow", Units: []api.ManifestUnit{
				{
					Name: "/etc/pods/web.yaml", Digest: "sha256:56", Revision: "sha256:78", Pods: []string{"default/web", "shop/db"},
					Restored: true,
					Faults:   []string{"/etc/pods/web.yaml:1: is wrong"}, Warnings: []string{"/etc/pods/web.yaml:2: has no effect"},
				}, {},
			},
		},
		{Units: []api.ManifestUnit{}},
	}
}

func (wireSources) Objects() []api.ManifestObject {
	return []api.ManifestObject{
		{Kind: "Secret", Namespace: "default", Name: "login", Source: "file", Manifest: "/etc/pods/web.yaml", Revision: "k-1",
			Keys: []string{"password", "user"}, Type: "Opaque"},
		{Kind: "Service", Namespace: "default", Name: "web", Source: "file", Manifest: "/etc/pods/web.yaml", Revision: "k-2"},
		{Kind: "PriorityClass", Name: "edge", Manifest: "/etc/pods/web.yaml"},
		{},
	}
}

func (wireSources) Rollouts() []api.Rollout { return []api.Rollout{wireRollout, {}} }

func (wireSources) History(string) ([]api.RolloutRevision, error) {
	return []api.RolloutRevision{{
		Revision: "2222222222", Time: wireTime(8), Ready: true, InEffect: true, InManifest: true,
		Rejected: "not Ready within 1m", Candidate: api.CandidateWaiting, Message: "DependencyNotReady: db is not ready",
		Images: map[string]string{"web": "docker.io/library/web@sha256:12"},
	}, {}}, nil
}

func (wireSources) Undo(string, string) error { return nil }
func (wireSources) Retry(string) error        { return nil }

func (wireSources) AutoUpdates() []api.AutoUpdate { return wireUpdates }

func (wireSources) CheckUpdates(context.Context, []string, bool) ([]api.AutoUpdate, error) {
	return wireUpdates, nil
}

func (wireSources) Images(context.Context) ([]api.Image, error) {
	return []api.Image{wireImage, {}}, nil
}

func (wireSources) PruneImages(context.Context, bool) ([]api.Image, error) {
	return []api.Image{wireImage, {}}, nil
}

func (wireSources) PullImage(context.Context, api.Pull) (api.Image, error) { return wireImage, nil }

func (wireSources) LoadImages(context.Context, io.Reader, string) ([]api.Image, error) {
	return []api.Image{wireImage, {}}, nil
}

func (wireSources) ImageArchives() api.ImageArchives {
	return api.ImageArchives{Directory: "/var/images", Fault: "cannot read /var/images", Ignored: []string{"notes.txt"},
		Archives: []api.ImageArchive{{
			File: "/var/images/web.tar", State: "Failed", Message: "it is damaged", Images: []string{"docker.io/library/web:1"},
			Superseded: map[string]string{"docker.io/library/web:1": "/var/images/new.tar"},
		}, {}}}
}

func (wireSources) PersistentVolumes(context.Context, bool) ([]api.PersistentVolume, error) {
	return []api.PersistentVolume{
		{
			Namespace: "shop", Name: "data", Source: "api", Path: "/var/lib/data", Volume: "pv-1", Type: "local",
			Capacity: "10Gi", StorageClass: "fast",
			ReclaimPolicy: "Retain", Declared: true, Requested: "1Gi", Pods: []string{"shop/db"}, State: api.VolumeWaiting,
			Waiting: []api.VolumeWait{{Pod: "shop/db", Message: "no volume"}, {}}, Usage: &wireUsage,
		},
		{Usage: &api.VolumeUsage{}},
		{},
	}, nil
}

func (wireSources) RemovePersistentVolume(string, string) error { return nil }

func (wireSources) Restart(types.UID, string, time.Time) error { return nil }

func (wireSources) Leave(context.Context) (string, error) { return "kubectl delete node n1", nil }

// wireRoutes are podstead's own endpoints and the golden files of their responses; none for a response without a body,
// or with a type of Kubernetes.
var wireRoutes = map[string]string{
	"GET /manifests":        "manifests",
	"GET /objects":          "objects",
	"GET /events":           "", // a v1.EventList
	"GET /images":           "images",
	"GET /images/archives":  "image-archives",
	"POST /images/prune":    "images",
	"POST /images/pull":     "image",
	"POST /images/load":     "images",
	"GET /starts":           "starts",
	"GET /rollouts":         "rollouts",
	"GET /auto-update":      "auto-updates",
	"POST /auto-update":     "auto-updates",
	"POST /cluster/leave":   "cluster-leave",
	"GET /volumes":          "volumes",
	"POST /kubeconfig":      "kubeconfig",
	"DELETE /kubeconfig":    "",
	"DELETE /kubeconfig/ID": "",

	"DELETE /volumes/default/web":                      "",
	"POST /namespaces/default/pods/web/restart":        "restart",
	"GET /namespaces/default/pods/web/rollout/history": "rollout-history",
	"POST /namespaces/default/pods/web/rollout/undo":   "rollout",
	"POST /namespaces/default/pods/web/rollout/retry":  "rollout",
}

// wireContent is what the endpoints are asked for.
func wireContent() Sources {
	return Sources{
		Pods: wireSources{}, Manifests: wireSources{}, Objects: wireSources{}, Images: wireSources{},
		Restarter: wireSources{}, Starts: wireSources{},
		Rollouts: wireSources{}, AutoUpdates: wireSources{}, Volumes: wireSources{}, Cluster: wireSources{},
		Kube:         http.NotFoundHandler(),
		ManifestName: func(p *v1.Pod) string { return strings.TrimSuffix(p.Name, "-n1") },
	}
}

// TestWire compares the JSON of each of podstead's own endpoints with golden files: programs on other machines
// read them, and a field does not change its name after a release.
func TestWire(t *testing.T) {
	src := wireContent()
	names := strings.NewReplacer("{namespace}", "default", "{pod}", "web", "{name}", "web", "{id}", "ID")
	checked := map[string]bool{}
	for _, route := range Routes(src) {
		path, own := strings.CutPrefix(names.Replace(route.Path), "/podstead/v1")
		if !own {
			continue
		}
		file, known := wireRoutes[route.Method+" "+path]
		if !known {
			t.Errorf("%s %s has no golden file", route.Method, route.Path)
		}
		checked[route.Method+" "+path] = true
		if file == "" || file == "kubeconfig" {
			continue
		}
		status, body := call(t, src, access.Read|access.Write|access.Admin, route.Method, path+"?timeout=1m&image=web:1")
		if status != http.StatusOK {
			t.Errorf("%s %s: %d %s", route.Method, path, status, body)
		}
		checkWire(t, file, body)
	}
	if len(checked) != len(wireRoutes) {
		t.Errorf("%d of %d endpoints are routes", len(checked), len(wireRoutes))
	}
}

// A kubeconfig has new keys each time.
func TestWireOfKubeconfig(t *testing.T) {
	w := httptest.NewRecorder()
	writeJSON(w, &api.Kubeconfig{
		Node: "n1", User: "podstead-admin", Role: string(access.RoleAdmin), ID: "5c1f0d7e", Server: "https://127.0.0.1:10250",
		ServerName:    "podstead",
		RemoteAddress: "192.0.2.1:10250", CertificateAuthority: "ca\n", ClientCertificate: "certificate\n",
		ClientKey: "key\n", Expires: wireTime(9),
	})
	checkWire(t, "kubeconfig", w.Body.String())
	w = httptest.NewRecorder()
	writeJSON(w, &api.Kubeconfig{})
	checkWire(t, "kubeconfig-empty", w.Body.String())
}

// The first value of each list has all fields: one that is added here is seen in the golden files.
func TestWireHasEachField(t *testing.T) {
	volumes, _ := wireSources{}.PersistentVolumes(t.Context(), true)
	history, _ := wireSources{}.History("")
	start, _ := wireSources{}.PodStart("u-2")
	start.Namespace, start.Name, start.UID = "default", "web-n1", "u-2"
	for _, v := range []any{
		wireRollout, wireImage, wireUsage, wireUpdates[0], wireUpdates[0].Containers[0], volumes[0], volumes[0].Waiting[0],
		history[0], start, start.Steps[0],
		wireSources{}.Manifests()[0], wireSources{}.Manifests()[0].Units[0], wireSources{}.Objects()[0],
		wireSources{}.ImageArchives(), wireSources{}.ImageArchives().Archives[0],
	} {
		for field, value := range reflect.ValueOf(v).Fields() {
			if value.IsZero() {
				t.Errorf("%T.%s is not set", v, field.Name)
			}
		}
	}
}

// The client of package api has a method for each endpoint, which reads all of the response.
func TestClientReadsTheWire(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	requested := map[string]bool{}
	served := serveClasses(Routes(wireContent()), access.Read|access.Write|access.Admin)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route := r.Method + " " + strings.TrimPrefix(r.URL.Path, api.Path)
		requested[route] = true
		if file := wireRoutes[route]; file == "kubeconfig" {
			data, _ := os.ReadFile(wireFile(file))
			_, _ = w.Write(data)
		} else if strings.Contains(route, "/kubeconfig") {
			w.WriteHeader(http.StatusNoContent)
		} else {
			served.ServeHTTP(w, r)
		}
	})}
	go func() { _ = s.Serve(listener) }()
	defer s.Close()
	c, ctx := client.New(socket), t.Context()
	response := func(v any, err error) any {
		if err != nil {
			t.Error(err)
		}
		return v
	}
	read := func(file string) func(v any, err error) {
		return func(v any, err error) {
			body, _ := json.Marshal(response(v, err))
			checkWire(t, file, string(body))
		}
	}
	read("manifests")(c.Manifests(ctx))
	read("objects")(c.Objects(ctx))
	read("images")(c.Images(ctx))
	read("image-archives")(c.ImageArchives(ctx))
	read("images")(c.PruneImages(ctx, true))
	read("image")(c.PullImage(ctx, api.Pull{Image: "web:1", Namespace: "shop", Secrets: []string{"login"}}))
	read("images")(c.LoadImages(ctx, strings.NewReader("archive"), "web:1"))
	read("starts")(c.PodStarts(ctx))
	read("rollouts")(c.Rollouts(ctx))
	read("rollout-history")(c.RolloutHistory(ctx, "default", "web"))
	read("rollout")(c.UndoRollout(ctx, "default", "web", "1111111111"))
	read("rollout")(c.RetryRollout(ctx, "default", "web"))
	read("auto-updates")(c.AutoUpdates(ctx))
	read("auto-updates")(c.CheckUpdates(ctx, []string{"default/web"}, true))
	read("restart")(c.RestartPod(ctx, "default", "web"))
	read("cluster-leave")(c.LeaveCluster(ctx, time.Minute))
	read("volumes")(c.Volumes(ctx, true))
	read("kubeconfig")(c.CreateKubeconfig(ctx, "admin", time.Hour))
	response(nil, c.RemoveVolume(ctx, "default", "web"))
	response(nil, c.RevokeKubeconfig(ctx, "ID"))
	response(nil, c.RevokeKubeconfigs(ctx))
	for route := range wireRoutes {
		if !requested[route] && route != "GET /events" {
			t.Errorf("the client has no method for %s", route)
		}
	}
}

// wireFile returns the path of a golden file.
func wireFile(name string) string { return filepath.Join("..", "api", "testdata", name+".json") }

// checkWire compares a response with a golden file, in which it is indented.
func checkWire(t *testing.T, name, body string) {
	t.Helper()
	path := wireFile(name)
	var indented, compact bytes.Buffer
	if err := json.Indent(&indented, []byte(body), "", "  "); err != nil {
		t.Fatalf("%s: %v in %s", name, err, body)
	}
	indented.WriteByte('\n')
	if *update {
		if err := os.WriteFile(path, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&compact, want); err != nil {
		t.Fatal(err)
	}
	if body != compact.String() {
		t.Errorf("%s differs, go test ./httpapi -run TestWire -update rewrites it:\n%s", path, indented.String())
	}
}
