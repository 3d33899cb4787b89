package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

type usageFixture struct{ fault error }

func (f usageFixture) Usage(context.Context) ([]NodeUsage, []PodUsage, error) {
	at := time.Unix(1700000000, 0)
	return []NodeUsage{{Name: "n1", Labels: map[string]string{"zone": "a"}, At: at, Window: 10 * time.Second,
			ResourceUsage: ResourceUsage{1.25, 3 << 30}}},
		[]PodUsage{
			{Name: "web", Namespace: "default", Labels: map[string]string{"app": "web"}, At: at, Window: 7 * time.Second,
				Containers: []ContainerUsage{{"a", ResourceUsage{0.3, 5 << 20}}, {"b", ResourceUsage{0.000000001, 1000}}}},
			{Name: "db", Namespace: "apps", At: at, Containers: []ContainerUsage{{"c", ResourceUsage{0, 0}}}},
		}, f.fault
}

func askUsage(t *testing.T, f usageFixture, path string) (int, string) {
	t.Helper()
	mux := http.NewServeMux()
	const group = "/apis/" + usageVersion
	for _, pattern := range []string{"/nodes", "/nodes/{name}"} {
		mux.HandleFunc("GET "+group+pattern, UsageHandler(f, "nodes"))
	}
	for _, pattern := range []string{"/pods", "/namespaces/{namespace}/pods", "/namespaces/{namespace}/pods/{name}"} {
		mux.HandleFunc("GET "+group+pattern, UsageHandler(f, "pods"))
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", group+path, nil))
	return w.Code, w.Body.String()
}

func TestUsageAPI(t *testing.T) {
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"/nodes", 200,
			`{"kind":"NodeMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[{"kind":"NodeMetrics","apiVersion":"metrics.k8s.io/v1beta1",` +
				`"metadata":{"name":"n1","creationTimestamp":"2023-11-14T22:13:20Z","labels":{"zone":"a"}},"timestamp":"2023-11-14T22:13:20Z","window":"10s","usage":{"cpu":"1250m","memory":"3Gi"}}]}`},
		{"/nodes/n1", 200, `"kind":"NodeMetrics",`},
		{"/nodes/n2", 404, `nodes \"n2\" not found`},
		{"/namespaces/default/pods/web", 200,
			`"containers":[{"name":"a","usage":{"cpu":"300m","memory":"5Mi"}},{"name":"b","usage":{"cpu":"1n","memory":"1k"}}]`},
		{"/namespaces/apps/pods/web", 404, "not found"},
		{"/pods?fieldSelector=spec.x%3Dy", 400, "spec.x"},
		{"/pods?labelSelector=%3B", 400, "labelSelector"},
		{"/pods?watch=true", 405, "do not support watch"},
	} {
		code, body := askUsage(t, usageFixture{}, c.path)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d\n%s\nwant %d with\n%s", c.path, code, body, c.code, c.want)
		}
	}
	for path, want := range map[string]string{
		"/pods": "web db", "/namespaces/apps/pods": "db", "/pods?labelSelector=app%3Dweb": "web",
		"/pods?labelSelector=app!%3Dweb":         "db",
		"/pods?fieldSelector=metadata.name%3Ddb": "db", "/nodes?labelSelector=zone%3Db": "",
	} {
		code, body := askUsage(t, usageFixture{}, path)
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil || code != 200 {
			t.Errorf("%s: %d, %v", path, code, err)
		}
		var names []string
		for _, i := range list.Items {
			names = append(names, i.Metadata.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if code, body := askUsage(t, usageFixture{errors.New("no disk")}, "/pods"); code != 503 ||
		!strings.Contains(body, "no disk") {
		t.Errorf("a fault: %d %s", code, body)
	}
}
