package kubeapi

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podstead/podstead/httpapi/access"
)

// TestOpenAPIReferences resolves every reference of the document.
func TestOpenAPIReferences(t *testing.T) {
	b := newTestAPI(t)
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		}
	}
	b.get("/openapi/v3", &index)
	var doc struct {
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]map[string]any }
	}
	b.get(index.Paths["api/v1"].ServerRelativeURL, &doc)
	for _, path := range []string{"/api/v1/namespaces/{namespace}/pods", "/api/v1/namespaces/{namespace}/pods/{name}", "/api/v1/nodes/{name}"} {
		if doc.Paths[path]["get"] == nil {
			t.Errorf("no description of GET %s", path)
		}
	}
	count := 0
	var follow func(v any)
	follow = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				count++
				if name, ok := strings.CutPrefix(ref, "#/components/schemas/"); !ok || doc.Components.Schemas[name] == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, sub := range v {
				follow(sub)
			}
		case []any:
			for _, sub := range v {
				follow(sub)
			}
		}
	}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	follow(all)
	if count < 100 {
		t.Errorf("only %d references", count)
	}
	spec := doc.Components.Schemas["io.k8s.api.core.v1.Container"]
	if spec["required"] == nil || !strings.Contains(string(data), "Entrypoint array") {
		t.Errorf("Container: %v", spec["required"])
	}
}

func TestAccessReviews(t *testing.T) {
	b := newTestAPI(t)
	v := OpenVersions("", nil)
	api := New(Config{Versions: v, Sources: Sources{Pods: PodSource(b.pods.list, nil)}})
	ask := func(may access.Class, path, body string) (int, string) {
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r.WithContext(access.WithCaller(r.Context(), access.Caller{User: "ann", Classes: may})))
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		may            access.Class
		verb, resource string
		allowed        bool
	}{
		{access.RoleRead.Classes(), `"list"`, `"pods"`, true},
		{access.RoleRead.Classes(), `"get"`, `"pods","subresource":"log"`, true},
		{access.RoleRead.Classes(), `"create"`, `"pods","subresource":"exec"`, false},
		{access.RoleExec.Classes(), `"create"`, `"pods","subresource":"exec"`, true},
		{access.All, `"delete"`, `"pods"`, false},
		{access.All, `"get"`, `"services"`, true},
		{access.All, `"create"`, `"services"`, false},
		{access.RoleRead.Classes(), `"list"`, `"deployments","group":"apps"`, true},
		{access.All, `"list"`, `"podtemplates"`, false},
		{access.All, `"get"`, `"pods","group":"apps"`, false},
	} {
		code, body := ask(c.may, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":`+c.verb+`,"resource":`+c.resource+`}}}`)
		if want := `"allowed":true`; code != 201 || strings.Contains(body, want) != c.allowed {
			t.Errorf("%s %s as %v: %d %s", c.verb, c.resource, c.may, code, body)
		}
	}
	if code, body := ask(access.All, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "k8s\x00garbage"); code != 400 || !strings.Contains(body, "must be a SelfSubjectAccessReview") {
		t.Errorf("an invalid review: %d %s", code, body)
	}
	if code, body := ask(access.Read, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}"); code != 201 || !strings.Contains(body, `"username":"ann"`) {
		t.Errorf("whoami: %d %s", code, body)
	}
}
