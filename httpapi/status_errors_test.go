package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/internal/statefile"
)

// Every route of an API serves each method, from callers with and without its class, with a
// Status that has a reason, the code and details, if it responds with an error.
func TestEveryErrorOfEveryRouteIsAStatus(t *testing.T) {
	n := newLogNode(t)
	src := n.sources()
	src.Kube = kubeapi.New(kubeapi.Config{
		Versions:     kubeapi.OpenVersions(t.TempDir()+"/versions", statefile.Disk{}),
		Subresources: []metav1.APIResource{{Name: "pods/log"}, {Name: "nodes/proxy"}},
		Sources: kubeapi.Sources{
			Pods:       kubeapi.PodSource(func() []*v1.Pod { return n.pods }, nil),
			Events:     kubeapi.EventSource(func() []v1.Event { return nil }, nil),
			Nodes:      kubeapi.NodeSource(func() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}} }, nil),
			Namespaces: kubeapi.NamespaceSource(func() []string { return nil }, metav1.Now(), nil),
		},
	})
	routes := Routes(src)
	incomplete := map[string]bool{}
	for i, route := range routes {
		routes[i].Handle = func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil { // it has passed its checks and reached a source that this test does not have
					incomplete[route.Path] = true
				}
			}()
			route.Handle(w, r)
		}
	}
	paths := map[string]bool{
		"/": true, "/api": true, "/api/v1/": true, "/api/v2/pods": true, "/apis/none": true, "/apis/none/v1/things/x": true,
		"/apis/apps/v1/namespaces/a/deployments/x/scale": true,
		"/api/v1/nodes/n2/proxy/healthz":                 true, "/api/v1/nodes/n1/proxy": true, "/api/v1/nodes/n1": true,
		"/api/v1/namespaces/none":                         true,
		"/api/v1/namespaces/default/pods/web-n1/eviction": true, "/api/v1/namespaces/default/services/x": true,
		"/api/v1/namespaces/default/pods/..":  true,
		"/api/v1/namespaces/default/pods/%00": true, "/api/v1/pods?watch=x": true, "/api/v1/watch/pods": true,
		"/podstead/v2/pods": true, "/podstead": true, "/openapi/v3/apis/none/v1": true, "/version/x": true,
	}
	replace := strings.NewReplacer("{$}", "", "{namespace}", "default", "{uid}", "u", "{container}", "main", "{name}",
		"none", "{id}", "none")
	for _, route := range routes {
		for _, pod := range []string{"none", "web-n1", "a%2Fb"} {
			paths[strings.ReplaceAll(replace.Replace(route.Path), "{pod}", pod)] = true
		}
	}
	checked := 0
	for path := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "NONSENSE"} {
			for _, classes := range []access.Class{0, access.Health, access.RoleRead.Classes(), access.RoleEdit.Classes()} {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(method, path, strings.NewReader("{"))
				nodeProxy("n1", serveClassesOf(routes, classes)).ServeHTTP(w, r)
				if w.Code < 400 || !apistatus.IsAPI(r.URL.Path) {
					continue
				}
				checked++
				var s metav1.Status
				if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || s.Kind != "Status" || s.APIVersion != "v1" ||
					s.Status != "Failure" || s.Message == "" ||
					s.Reason == "" || int(s.Code) != w.Code || s.Details == nil ||
					w.Header().Get("Content-Type") != "application/json" {
					t.Errorf("%s %s as %v: %d %q", method, path, classes, w.Code, w.Body)
					continue
				}
				if _, kind, name := apistatus.ObjectOf(r.URL.Path); name != "" && s.Details.Name != name &&
					!strings.Contains(s.Message, "serve") && !strings.Contains(path, "%2F") || s.Details.Kind != kind {
					t.Errorf("%s %s as %v: the details do not name the object: %s", method, path, classes, w.Body)
				}
			}
		}
	}
	if len(incomplete) > 30 {
		t.Errorf("too many routes without a source: %v", incomplete)
	}
	if checked < 500 {
		t.Errorf("only %d errors", checked)
	}
}
