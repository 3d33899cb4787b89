package kubeapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
)

// fakePods is the pod source of the API under test.
type fakePods struct {
	mu   sync.Mutex
	pods map[string]*v1.Pod
	subs []chan struct{}
}

func (b *fakePods) list() []*v1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*v1.Pod
	for _, p := range b.pods {
		all = append(all, p.DeepCopy())
	}
	return all
}

func (b *fakePods) subscribe() (<-chan struct{}, func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch := make(chan struct{}, 1)
	b.subs = append(b.subs, ch)
	return ch, func() {}
}

// set replaces a pod, or removes it if p is nil.
func (b *fakePods) set(name string, p *v1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p == nil {
		delete(b.pods, name)
	} else {
		b.pods[name] = p
	}
	for _, ch := range b.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func pod(namespace, name string, phase v1.PodPhase) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name),
			Labels: map[string]string{"app": name}},
		Spec:   v1.PodSpec{NodeName: "edge", Containers: []v1.Container{{Name: "main"}}},
		Status: v1.PodStatus{Phase: phase},
	}
}

// kubeAPIHarness is an API on a test server.
type kubeAPIHarness struct {
	*testing.T
	pods *fakePods
	api  *API
	url  string
}

func newTestAPI(t *testing.T, pods ...*v1.Pod) *kubeAPIHarness {
	return newTestAPIAt(t, filepath.Join(t.TempDir(), "version"), pods...)
}

func newTestAPIAt(t *testing.T, versions string, pods ...*v1.Pod) *kubeAPIHarness {
	t.Helper()
	b := &fakePods{pods: map[string]*v1.Pod{}}
	for _, p := range pods {
		b.pods[p.Name] = p
	}
	v := OpenVersions(versions, statefile.Disk{})
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	api := New(Config{
		Versions: v, Version: "1.2.3",
		Manifest: func(kind, _, name string) string {
			if kind == "Pod" && name == "web" {
				return "/etc/pods/web.yaml"
			}
			return ""
		},
		Sources: Sources{
			Pods:       PodSource(b.list, b.subscribe),
			Nodes:      NodeSource(func() *v1.Node { return node }, nil),
			Namespaces: NamespaceSource(func() []string { return []string{"shop"} }, metav1.Now(), nil),
			Events:     EventSource(func() []v1.Event { return nil }, nil),
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = api.Run(ctx)
	}()
	server := httptest.NewServer(api)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		cancel()
		<-done
	})
	return &kubeAPIHarness{T: t, pods: b, api: api, url: server.URL}
}

func (b *kubeAPIHarness) request(method, path, accept string) (int, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, b.url+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func (b *kubeAPIHarness) get(path string, into any) {
	b.Helper()
	code, body := b.request("GET", path, "")
	if code != 200 {
		b.Fatalf("GET %s: %d %s", path, code, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		b.Fatalf("GET %s: %v in %s", path, err, body)
	}
}

// watched is an open watch.
type watched struct {
	b     *kubeAPIHarness
	lines *bufio.Scanner
}

func (b *kubeAPIHarness) watch(path, accept string) *watched {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	b.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", b.url+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 {
		body, _ := io.ReadAll(res.Body)
		b.Fatalf("watch %s: %d %s", path, res.StatusCode, body)
	}
	return &watched{b: b, lines: bufio.NewScanner(res.Body)}
}

type event struct {
	Type   string
	Object v1.Pod
}

// next returns the next event as "TYPE name phase".
func (w *watched) next() (string, event) {
	w.b.Helper()
	if !w.lines.Scan() {
		w.b.Fatalf("the watch ended: %v", w.lines.Err())
	}
	var e event
	if err := json.Unmarshal(w.lines.Bytes(), &e); err != nil {
		w.b.Fatalf("%v in %s", err, w.lines.Text())
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Type, e.Object.Name, e.Object.Status.Phase)), e
}

func (w *watched) want(texts ...string) event {
	w.b.Helper()
	var e event
	for _, want := range texts {
		var got string
		if got, e = w.next(); got != want {
			w.b.Fatalf("event %q, want %q", got, want)
		}
	}
	return e
}

func TestListAndGet(t *testing.T) {
	b := newTestAPI(t, pod("shop", "web", v1.PodRunning), pod("shop", "db", v1.PodPending),
		pod("default", "other", v1.PodRunning))
	for path, want := range map[string]string{
		"/api/v1/pods":                                               "other db web",
		"/api/v1/namespaces/shop/pods":                               "db web",
		"/api/v1/namespaces/none/pods":                               "",
		"/api/v1/pods?labelSelector=app%20in%20(web,other)":          "other web",
		"/api/v1/pods?fieldSelector=status.phase!%3DRunning":         "db",
		"/api/v1/pods?fieldSelector=spec.nodeName%3Dedge&limit=1":    "other db web",
		"/api/v1/namespaces/shop/pods?fieldSelector=metadata.name=x": "",
	} {
		var list v1.PodList
		b.get(path, &list)
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		if list.Kind != "PodList" || list.APIVersion != "v1" || list.ResourceVersion == "" {
			t.Errorf("%s: %+v", path, list.TypeMeta)
		}
	}
	var one v1.Pod
	b.get("/api/v1/namespaces/shop/pods/web", &one)
	if one.Kind != "Pod" || one.Name != "web" || one.ResourceVersion == "" {
		t.Errorf("got %+v", one.ObjectMeta)
	}
	var names v1.NamespaceList
	b.get("/api/v1/namespaces", &names)
	if len(names.Items) != 2 || names.Items[0].Name != "default" || names.Items[1].Name != "shop" {
		t.Errorf("namespaces: %+v", names.Items)
	}
	var node v1.Node
	b.get("/api/v1/nodes/edge", &node)
	if node.Kind != "Node" {
		t.Errorf("node: %+v", node)
	}
}

// A list is a valid response for every version up to its own.
func TestListWithResourceVersion(t *testing.T) {
	b := newTestAPI(t, pod("shop", "web", v1.PodRunning))
	var list v1.PodList
	b.get("/api/v1/pods?resourceVersion=0", &list)
	exact := "/api/v1/pods?resourceVersionMatch=Exact&resourceVersion=" + list.ResourceVersion
	b.get(exact, &list)
	b.pods.set("db", pod("shop", "db", v1.PodRunning))
	b.get("/api/v1/pods?resourceVersionMatch=NotOlderThan&resourceVersion="+list.ResourceVersion, &list)
	if len(list.Items) != 2 {
		t.Errorf("%d pods, want 2", len(list.Items))
	}
	if code, body := b.request("GET", exact, ""); code != 410 {
		t.Errorf("what was before the newest change: %d %s", code, body)
	}
}

func TestRequestErrors(t *testing.T) {
	b := newTestAPI(t, pod("shop", "web", v1.PodRunning))
	for _, c := range []struct {
		method, path, accept string
		code                 int
		words                string
	}{
		{"GET", "/api/v1/namespaces/shop/pods/none", "", 404, `pods \"none\" not found`},
		{"GET", "/api/v1/pods/web", "", 404, "does not serve"},
		{"GET", "/api/v1/podtemplates", "", 404, "does not serve /api/v1/podtemplates; it serves events, namespaces, nodes"},
		{"GET", "/apis/apps/v1/controllerrevisions", "", 404, "does not serve"},
		{"GET", "/apis/apps/v1beta1/deployments", "", 404, "does not serve"},
		{"GET", "/apis/batch/v1/deployments", "", 404, "does not serve"},
		{"GET", "/apis/apps/v1/namespaces/shop/deployments/web", "", 404,
			`deployments \"web\" not found; pod web is in a manifest: use podstead rollout and podstead restart with web`},
		{"GET", "/openapi/v3/apis/none/v1", "", 404, "does not serve"},
		{"POST", "/apis/apps/v1/namespaces/shop/deployments", "", 405,
			"podstead does not support deployments: declare pods in manifests instead"},
		{"DELETE", "/api/v1/namespaces/shop/services/web", "", 405, "podstead does not support services"},
		{"GET", "/api/v1/namespaces/shop/nodes", "", 404, "does not serve"},
		{"DELETE", "/api/v1/namespaces/shop/pods/web", "", 405, "edit /etc/pods/web.yaml instead"},
		{"POST", "/api/v1/namespaces/shop/pods", "", 405, "add, edit or remove"},
		{"PATCH", "/api/v1/nodes/edge", "", 405, "flags"},
		{"GET", "/api/v1/pods?labelSelector=a%20b", "", 400, "labelSelector"},
		{"GET", "/api/v1/pods?fieldSelector=spec.color%3Dred", "", 400, "spec.color"},
		{"GET", "/api/v1/pods?watch=perhaps", "", 400, "must be true or false"},
		{"GET", "/api/v1/pods?continue=abc", "", 410, "list again"},
		{"GET", "/api/v1/pods?watch=1&resourceVersion=1", "", 410, "list again"},
		{"GET", "/api/v1/pods?watch=1&resourceVersion=99999999999999999", "", 410, "list again"},
		{"GET", "/api/v1/pods?watch=1&resourceVersion=abc", "", 400, "resourceVersion"},
		{"GET", "/api/v1/pods?watch=1&sendInitialEvents=true", "", 422, "NotOlderThan"},
		{"GET", "/api/v1/pods?resourceVersion=abc", "", 400, "resourceVersion"},
		{"GET", "/api/v1/pods?resourceVersion=99999999999999999", "", 410, "list again"},
		{"GET", "/api/v1/pods?resourceVersion=1&resourceVersionMatch=Exact", "", 410, "list again"},
		{"GET", "/api/v1/pods?resourceVersion=0&resourceVersionMatch=Exact", "", 422, "Exact"},
		{"GET", "/api/v1/pods?resourceVersion=1&resourceVersionMatch=Newest", "", 422, "NotOlderThan"},
		{"GET", "/api/v1/pods?resourceVersionMatch=Exact", "", 422, "without resourceVersion"},
		{"GET", "/api/v1/pods", "application/vnd.kubernetes.protobuf", 406, "application/json"},
		{"GET", "/api/v1/namespaces/..%2f..%2fetc/pods/passwd", "", 404, "not found"},
	} {
		code, body := b.request(c.method, c.path, c.accept)
		var s metav1.Status
		if err := json.Unmarshal([]byte(body), &s); err != nil || s.Kind != "Status" || int(s.Code) != code {
			t.Errorf("%s %s: no Status: %d %s", c.method, c.path, code, body)
		}
		if code != c.code || !strings.Contains(body, c.words) {
			t.Errorf("%s %s: %d %s, want %d and %q", c.method, c.path, code, body, c.code, c.words)
		}
	}
}

func TestWatch(t *testing.T) {
	b := newTestAPI(t, pod("shop", "web", v1.PodPending))
	w := b.watch("/api/v1/pods?watch=true", "")
	first := w.want("ADDED web Pending")
	b.pods.set("web", pod("shop", "web", v1.PodRunning))
	second := w.want("MODIFIED web Running")
	b.pods.set("db", pod("shop", "db", v1.PodRunning))
	w.want("ADDED db Running")
	b.pods.set("web", nil)
	last := w.want("DELETED web Running")
	if versionOf(t, &first.Object) >= versionOf(t, &second.Object) ||
		versionOf(t, &second.Object) >= versionOf(t, &last.Object) {
		t.Errorf("versions do not grow: %s %s %s", first.Object.ResourceVersion, second.Object.ResourceVersion,
			last.Object.ResourceVersion)
	}
	if first.Object.Kind != "Pod" || first.Object.APIVersion != "v1" {
		t.Errorf("the object is a %+v", first.Object.TypeMeta)
	}
}

func versionOf(t *testing.T, p *v1.Pod) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(p.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A watch from the version of a list contains all changes since the list.
func TestWatchFromList(t *testing.T) {
	b := newTestAPI(t, pod("shop", "web", v1.PodPending))
	var list v1.PodList
	b.get("/api/v1/pods", &list)
	b.pods.set("web", pod("shop", "web", v1.PodRunning))
	replaced := pod("shop", "web", v1.PodPending)
	w := b.watch("/api/v1/pods?watch=true&resourceVersion="+list.ResourceVersion, "")
	w.want("MODIFIED web Running")
	replaced.UID = "another"
	b.pods.set("web", replaced)
	w.want("DELETED web Running", "ADDED web Pending")
}

// A watch with a selector sees objects that start or cease to match as added or deleted.
func TestWatchWithSelector(t *testing.T) {
	b := newTestAPI(t, pod("shop", "web", v1.PodPending), pod("shop", "db", v1.PodRunning))
	w := b.watch("/api/v1/namespaces/shop/pods?watch=true&fieldSelector=status.phase%3DRunning", "")
	w.want("ADDED db Running")
	b.pods.set("web", pod("shop", "web", v1.PodRunning))
	w.want("ADDED web Running")
	b.pods.set("other", pod("default", "other", v1.PodRunning))
	b.pods.set("web", pod("shop", "web", v1.PodFailed))
	w.want("DELETED web Failed")
}

func TestWatchList(t *testing.T) {
	b := newTestAPI(t, pod("shop", "web", v1.PodRunning))
	w := b.watch(
		"/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "")
	w.want("ADDED web Running")
	e := w.want("BOOKMARK")
	if e.Object.Annotations[metav1.InitialEventsAnnotationKey] != "true" || e.Object.ResourceVersion == "" {
		t.Errorf("the bookmark is %+v", e.Object.ObjectMeta)
	}
	b.pods.set("web", nil)
	w.want("DELETED web Running")
}

// A version from before a restart is too old, and later versions are greater, even if the
// clock was set back or the file was lost.
func TestVersionsIncreaseOverRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "version")
	var before v1.PodList
	newTestAPIAt(t, path, pod("shop", "web", v1.PodRunning)).get("/api/v1/pods", &before)
	b := newTestAPIAt(t, path, pod("shop", "web", v1.PodRunning))
	if code, body := b.request("GET", "/api/v1/pods?watch=1&resourceVersion="+before.ResourceVersion, ""); code != 410 {
		t.Errorf("a version of the past: %d %s", code, body)
	}
	var after v1.PodList
	b.get("/api/v1/pods", &after)
	was, _ := strconv.ParseUint(before.ResourceVersion, 10, 64)
	is, _ := strconv.ParseUint(after.ResourceVersion, 10, 64)
	if is <= was {
		t.Errorf("version %d after %d", is, was)
	}
	v := OpenVersions(filepath.Join(t.TempDir(), "lost"), statefile.Disk{})
	// Fewer versions were allocated than one second of the clock is worth.
	if next := v.Next(); next+versionBlock < was {
		t.Errorf("without the file: %d after %d", next, was)
	}
}

// A watch whose changes are no longer available gets an error.
func TestWatchTooOld(t *testing.T) {
	b := newTestAPI(t, pod("shop", "web", v1.PodRunning))
	var list v1.PodList
	b.get("/api/v1/pods", &list)
	for i := range maxChanges + 2 {
		p := pod("shop", "web", v1.PodRunning)
		p.Status.Message = strconv.Itoa(i)
		b.pods.set("web", p)
		var again v1.PodList
		b.get("/api/v1/pods", &again)
	}
	if code, body := b.request("GET", "/api/v1/pods?watch=1&resourceVersion="+list.ResourceVersion, ""); code != 410 {
		t.Errorf("%d %s", code, body)
	}
}

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

func TestTable(t *testing.T) {
	b := newTestAPI(t, pod("shop", "web", v1.PodRunning))
	_, body := b.request("GET", "/api/v1/pods", asTable)
	var table metav1.Table
	if err := json.Unmarshal([]byte(body), &table); err != nil {
		t.Fatal(err)
	}
	if table.Kind != "Table" || len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
		t.Fatalf("table %s", body)
	}
	if got := fmt.Sprint(table.Rows[0].Cells[:3]); got != "[web 0/1 Running]" {
		t.Errorf("row %s", got)
	}
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(table.Rows[0].Object.Raw, &meta); err != nil || meta.Namespace != "shop" ||
		meta.Kind != "PartialObjectMetadata" {
		t.Errorf("object %s: %v", table.Rows[0].Object.Raw, err)
	}
	for _, resource := range []string{"nodes", "namespaces", "events"} {
		code, body := b.request("GET", "/api/v1/"+resource, asTable)
		if err := json.Unmarshal([]byte(body), &table); err != nil || code != 200 {
			t.Fatalf("%s: %d %s", resource, code, body)
		}
		for _, row := range table.Rows {
			if len(row.Cells) != len(table.ColumnDefinitions) {
				t.Errorf("%s: %d cells for %d columns", resource, len(row.Cells), len(table.ColumnDefinitions))
			}
		}
	}
	w := b.watch("/api/v1/pods?watch=1", asTable)
	if !w.lines.Scan() || !strings.Contains(w.lines.Text(), `"kind":"Table"`) ||
		!strings.Contains(w.lines.Text(), `"web"`) {
		t.Errorf("watch of tables: %s", w.lines.Text())
	}
}

func TestDiscovery(t *testing.T) {
	b := newTestAPI(t)
	var list metav1.APIResourceList
	b.get("/api/v1", &list)
	var names []string
	for _, r := range list.APIResources {
		names = append(names, r.Name)
	}
	for _, name := range []string{"events", "namespaces", "nodes", "pods", "services", "persistentvolumes",
		"serviceaccounts"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not in %s", name, names)
		}
	}
	var versions metav1.APIVersions
	b.get("/api", &versions)
	if len(versions.Versions) != 1 || versions.Versions[0] != "v1" {
		t.Errorf("versions: %+v", versions)
	}
	var groups metav1.APIGroupList
	b.get("/apis", &groups)
	if code, body := b.request("GET", "/version", ""); code != 200 || !strings.Contains(body, "podstead-1.2.3") {
		t.Errorf("version: %d %s", code, body)
	}
}
