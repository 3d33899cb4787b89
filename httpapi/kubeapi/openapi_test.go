package kubeapi

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/internal/statefile"
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
	for _, path := range []string{"/api/v1/namespaces/{namespace}/pods", "/api/v1/namespaces/{namespace}/pods/{name}",
		"/api/v1/nodes/{name}"} {
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

// fieldsOf returns the fields with a number of a message in protobuf.
func fieldsOf(t *testing.T, data []byte, number protowire.Number) (found [][]byte) {
	t.Helper()
	for len(data) > 0 {
		n, kind, length := protowire.ConsumeTag(data)
		if length < 0 || kind != protowire.BytesType {
			t.Fatalf("invalid protobuf: %d, %d", length, kind)
		}
		value, size := protowire.ConsumeBytes(data[length:])
		if size < 0 {
			t.Fatal("invalid protobuf")
		}
		if n == number {
			found = append(found, value)
		}
		data = data[length+size:]
	}
	return found
}

// The document of version 2 defines each resource, refers only to what it defines, and reports how
// kubectl apply merges the lists of a pod.
func TestOpenAPIv2(t *testing.T) {
	b := newTestAPI(t)
	code, body := b.request("GET", "/openapi/v2", "")
	if code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	definitions := map[string][]byte{}
	for _, d := range fieldsOf(t, fieldsOf(t, []byte(body), 9)[0], 1) {
		definitions[string(fieldsOf(t, d, 1)[0])] = fieldsOf(t, d, 2)[0]
	}
	references := 0
	var follow func(schema []byte)
	follow = func(schema []byte) {
		for _, ref := range fieldsOf(t, schema, 1) {
			references++
			if name, ok := strings.CutPrefix(string(ref), "#/definitions/"); !ok || definitions[name] == nil {
				t.Errorf("%s leads nowhere", ref)
			}
		}
		for _, part := range append(fieldsOf(t, schema, 21), fieldsOf(t, schema, 23)...) {
			follow(fieldsOf(t, part, 1)[0])
		}
		for _, properties := range fieldsOf(t, schema, 25) {
			for _, p := range fieldsOf(t, properties, 1) {
				follow(fieldsOf(t, p, 2)[0])
			}
		}
	}
	for _, schema := range definitions {
		follow(schema)
	}
	if references < 100 {
		t.Errorf("only %d references", references)
	}
	for name, words := range map[string][]string{
		"io.k8s.api.core.v1.Pod":           {`[{"group":"","kind":"Pod","version":"v1"}]`},
		"io.k8s.api.core.v1.PodSpec":       {extensionPatchKey, `"merge,retainKeys"`, `"ip"`},
		"io.k8s.api.core.v1.Container":     {"Entrypoint array", `"mountPath"`},
		"Deployment":                       {"podstead does not support deployments", `"group":"apps"`},
		"io.k8s.api.coordination.v1.Lease": {`"group":"coordination.k8s.io"`},
	} {
		for _, word := range words {
			if !strings.Contains(string(definitions[name]), word) {
				t.Errorf("no %s in the definition of %s", word, name)
			}
		}
	}
}

// The lease of the node is renewed by reads, but not by each of them: they would be events of
// watches.
func TestNodeLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := NodeSource(func() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"}} }, nil)
		if uid := nodes.List()[0].GetUID(); uid == "" || uid == "n1" {
			t.Errorf("the UID of the node is %q, as in its events", uid)
		}
		leases := leaseSource(nodes)
		lease := func() *coordinationv1.Lease { return leases.List()[0].(*coordinationv1.Lease) }
		first := lease()
		if first.Namespace != "kube-node-lease" || first.Name != "n1" || *first.Spec.HolderIdentity != "n1" ||
			!first.Spec.RenewTime.Time.Equal(time.Now()) {
			t.Errorf("%+v", first)
		}
		time.Sleep(leasePeriod - 1)
		if lease() != first {
			t.Error("renewed before its time")
		}
		time.Sleep(time.Hour)
		if next := lease(); !next.Spec.RenewTime.Time.Equal(time.Now()) {
			t.Errorf("renewed at %v", next.Spec.RenewTime)
		}
	})
}

func TestAccessReviews(t *testing.T) {
	b := newTestAPI(t)
	v := OpenVersions("", statefile.Disk{})
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
		code, body := ask(c.may, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			`{"spec":{"resourceAttributes":{"verb":`+c.verb+`,"resource":`+c.resource+`}}}`)
		if want := `"allowed":true`; code != 201 || strings.Contains(body, want) != c.allowed {
			t.Errorf("%s %s as %v: %d %s", c.verb, c.resource, c.may, code, body)
		}
	}
	if code, body := ask(access.All, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		"k8s\x00garbage"); code != 400 || !strings.Contains(body, "must be a SelfSubjectAccessReview") {
		t.Errorf("an invalid review: %d %s", code, body)
	}
	if code, body := ask(access.Read, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}"); code != 201 ||
		!strings.Contains(body, `"username":"ann"`) {
		t.Errorf("whoami: %d %s", code, body)
	}
}
