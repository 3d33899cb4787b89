package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/kubeapi"
)

// The proxy of the node serves the kubelet's endpoints with their access classes, and nothing else.
func TestNodeProxyGrantsNoMoreThanTheEndpoints(t *testing.T) {
	n := newLogNode(t)
	src := n.sources()
	routes := Routes(src)
	for i := range routes {
		if first, _, _ := strings.Cut(routes[i].Path[1:], "/"); kubeletPaths[first] &&
			routes[i].Path != "/containerLogs/{namespace}/{pod}/{container}" {
			routes[i].Handle = func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Pattern + r.URL.Path)) }
		}
	}
	proxied := func(classes access.Class, method, path string) (int, string) {
		w := httptest.NewRecorder()
		nodeProxy("n1", serveClassesOf(routes, classes)).ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	direct := func(classes access.Class, method, path string) (int, string) {
		w := httptest.NewRecorder()
		serveClassesOf(routes, classes).ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	const prefix = "/api/v1/nodes/n1/proxy"
	replace := strings.NewReplacer("{$}", "", "{namespace}", "default", "{pod}", "none", "{uid}", "u", "{container}",
		"main")
	compared := 0
	for _, route := range routes {
		path := replace.Replace(route.Path)
		if first, _, _ := strings.Cut(path[1:], "/"); !kubeletPaths[first] || first == "debug" {
			continue
		}
		method := route.Method
		if method == "" {
			method = "GET"
		}
		compared++
		for _, role := range []access.Role{access.RoleRead, access.RoleExec, access.RoleEdit} {
			may := role.Classes()
			wantCode, want := direct(may, method, path)
			code, body := proxied(may, method, prefix+path)
			if code != wantCode || body != want {
				t.Errorf("%s %s as %s through the proxy: %d %q, directly %d %q", method, path, role, code, body, wantCode, want)
			}
			if !may.Has(route.Access) && code != http.StatusForbidden {
				t.Errorf("%s %s as %s: %d, want 403", method, path, role, code)
			}
		}
	}
	if compared < 20 {
		t.Errorf("only %d endpoints", compared)
	}
	for path, want := range map[string]int{
		prefix + "/healthz":                              200,
		prefix + "/logs/":                                403,
		prefix + "/podstead/v1/kubeconfig":               404,
		prefix + "/api/v1/secrets":                       404,
		prefix + prefix + "/healthz":                     404,
		prefix:                                           404,
		prefix + "/healthz/../logs/":                     307, // to the canonical path
		prefix + "/pods/%2e%2e/logs/":                    404,
		prefix + "/containerLogs/default/a%2Fb/main":     404,
		"/api/v1/nodes/other/proxy/healthz":              404,
		"/api/v1/nodes/n1:10250/proxy/healthz":           404,
		"/api/v1/namespaces/default/nodes/n1/proxy/pods": 404,
	} {
		if code, body := proxied(access.RoleExec.Classes(), "GET", path); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
}

func serveClassesOf(routes []Route, classes access.Class) http.Handler {
	return handler(routes, access.All, anonymous(classes))
}

// kubectl auth can-i reports the classes of the table of routes.
func TestReviewsReportTheClassesOfTheRoutes(t *testing.T) {
	for _, route := range Routes(newLogNode(t).sources()) {
		first, _, _ := strings.Cut(strings.Trim(route.Path, "/"), "/")
		if !kubeletPaths[first] && first != "version" && first != "openapi" {
			continue
		}
		verb := strings.ToLower(route.Method)
		if verb == "" {
			verb = "get"
		}
		if got := kubeapi.PathClass(verb, route.Path); got != route.Access {
			t.Errorf("%s %s: %v, want %v", verb, route.Path, got, route.Access)
		}
	}
}
