package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/internal/statefile"
)

// Clients of the Kubernetes API decode errors, and kubectl crashes on one without details.
func TestErrorsOfTheAPIAreStatusesWithDetails(t *testing.T) {
	n := newLogNode(t)
	src := n.sources()
	pods := func() []*v1.Pod { return n.pods }
	src.Kube = kubeapi.New(kubeapi.Config{
		Versions:     kubeapi.OpenVersions(t.TempDir()+"/versions", statefile.Disk{}),
		Subresources: []metav1.APIResource{{Name: "pods/log"}, {Name: "pods/exec"}},
		Sources: kubeapi.Sources{
			Pods:       kubeapi.PodSource(pods, nil),
			Events:     kubeapi.EventSource(func() []v1.Event { return nil }, nil),
			Nodes:      kubeapi.NodeSource(func() *v1.Node { return &v1.Node{} }, nil),
			Namespaces: kubeapi.NamespaceSource(func() []string { return nil }, metav1.Now(), nil),
		},
	})
	const web = "/api/v1/namespaces/default/pods/web-n1"
	for _, c := range []struct {
		method, path string
		allowed      access.Class
		code         int32
		reason       metav1.StatusReason
		kind, name   string
		cause        string
	}{
		{"GET", "/api/v1/namespaces/default/pods/none/log", access.Logs, 404, metav1.StatusReasonNotFound, "pods", "none",
			""},
		{"GET", "/api/v1/namespaces/default/pods/none/log?container=main", access.Logs, 404, metav1.StatusReasonNotFound,
			"pods", "none", ""},
		{"GET", web + "/log", access.Logs, 400, metav1.StatusReasonBadRequest, "pods", "web-n1", "container"},
		{"GET", web + "/log?container=none", access.Logs, 404, metav1.StatusReasonNotFound, "pods", "web-n1", "container"},
		{"GET", web + "/log?container=main&tailLines=x", access.Logs, 400, metav1.StatusReasonBadRequest, "pods", "web-n1",
			""},
		{"GET", web + "/log?container=side", access.Logs, 400, metav1.StatusReasonBadRequest, "pods", "web-n1", ""},
		{"POST", web + "/log", access.Write, 405, metav1.StatusReasonMethodNotAllowed, "pods", "web-n1", ""},
		{"GET", web + "/log", access.Read, 403, metav1.StatusReasonForbidden, "pods", "web-n1", ""},
		{"POST", web + "/exec?container=none", access.Exec, 404, metav1.StatusReasonNotFound, "pods", "web-n1", "container"},
		{"GET", "/api/v1/namespaces/default/pods/none", access.Read, 404, metav1.StatusReasonNotFound, "pods", "none", ""},
		{"DELETE", web, access.Write, 405, metav1.StatusReasonMethodNotAllowed, "pods", "web-n1", ""},
		{"DELETE", "/api/v1/namespaces/default/pods/none", access.Write, 404, metav1.StatusReasonNotFound, "pods", "none",
			""},
		{"DELETE", web, access.Exec, 403, metav1.StatusReasonForbidden, "pods", "web-n1", ""},
		{"POST", "/api/v1/namespaces/default/pods", access.Write, 405, metav1.StatusReasonMethodNotAllowed, "pods", "", ""},
		{"PATCH", web + "/ephemeralcontainers", access.Write, 405, metav1.StatusReasonMethodNotAllowed, "pods", "web-n1", ""},
		{"PATCH", "/api/v1/namespaces/default/pods/none/ephemeralcontainers", access.Write, 404, metav1.StatusReasonNotFound,
			"pods", "none", ""},
		{"PATCH", web + "/nosuch", access.Write, 404, metav1.StatusReasonNotFound, "pods", "", ""},
		{"GET", "/apis/apps/v1/namespaces/default/deployments/web", access.Read, 404, metav1.StatusReasonNotFound,
			"deployments", "", ""},
		{"GET", "/api/v1/pods?limit=x", access.Read, 400, metav1.StatusReasonBadRequest, "pods", "", ""},
		{"GET", "/api/v1/pods?resourceVersionMatch=x", access.Read, 422, metav1.StatusReasonInvalid, "pods", "",
			"resourceVersionMatch"},
		{"GET", "/podstead/v1/nosuch", access.Read, 404, metav1.StatusReasonNotFound, "nosuch", "", ""},
		{"DELETE", "/podstead/v1/manifests", access.Read, 405, metav1.StatusReasonMethodNotAllowed, "manifests", "", ""},
		{"POST", "/podstead/v1/namespaces/default/pods/none/restart", access.Write, 404, metav1.StatusReasonNotFound, "pods",
			"none", ""},
		{"GET", "/api/v1/namespaces/default/pods/a%2Fb/log", access.Logs, 404, metav1.StatusReasonNotFound, "pods", "", ""},
	} {
		callers := access.Read | access.Logs | access.Exec | access.Write | access.Admin
		grant := func(*http.Request) (access.Caller, error) {
			return access.Caller{Classes: c.allowed | access.Read}, nil
		}
		w := httptest.NewRecorder()
		handler(Routes(src), callers, grant).ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		var got metav1.Status
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Kind != "Status" || got.Details == nil {
			t.Errorf("%s %s: no Status with details: %v, %s", c.method, c.path, err, w.Body)
			continue
		}
		hasCause := slices.ContainsFunc(got.Details.Causes,
			func(s metav1.StatusCause) bool { return s.Field == c.cause && s.Message == got.Message })
		if int32(w.Code) != c.code || got.Code != c.code || got.Reason != c.reason || got.Details.Kind != c.kind ||
			got.Details.Name != c.name && c.name != "" ||
			hasCause == (c.cause == "") || w.Header().Get("Content-Type") != "application/json" || got.Message == "" {
			t.Errorf("%s %s: %d %s, want %+v", c.method, c.path, w.Code, w.Body, c)
		}
	}
}
