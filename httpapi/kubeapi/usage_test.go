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

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/usage"
)

// used returns the usage of CPU in cores, averaged over seconds, and of memory in bytes, of which a quarter more can be
// reclaimed.
func used(cores float64, seconds int, bytes uint64) usage.Usage {
	return usage.Usage{At: time.Unix(1700000000, 0),
		CPU:    &usage.CPU{Rate: &cores, Window: time.Duration(seconds) * time.Second},
		Memory: &usage.Memory{Usage: bytes + bytes/4, InactiveFile: bytes / 4}}
}

// usageFixture is the usage of a node and three pods, of which one is not measured yet. The pod of one is not known.
func usageFixture(fault error) Usage {
	pod := func(name, namespace, uid string, containers ...usage.Container) usage.Pod {
		return usage.Pod{Name: name, Namespace: namespace, UID: types.UID(uid), Containers: containers,
			Usage: usage.Usage{At: time.Unix(1700000000, 0)}}
	}
	return Usage{
		Node: "n1", Labels: map[string]string{"zone": "a"},
		Read: func(context.Context) (*usage.Node, *usage.Pods, error) {
			return &usage.Node{Usage: used(1.25, 10, 3<<30)}, &usage.Pods{Pods: []usage.Pod{
				pod("web-n1", "default", "u1", usage.Container{Name: "a", Usage: used(0.3, 5, 5<<20)},
					usage.Container{Name: "b", Usage: used(0.000000001, 7, 1000)}, usage.Container{Name: "new"}),
				pod("new", "apps", "u2", usage.Container{Name: "a"}),
				pod("db", "apps", "u3", usage.Container{Name: "c", Usage: used(0, 1, 0)}),
			}}, fault
		},
		Pods: func() []*v1.Pod {
			return []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-n1", Namespace: "default", UID: "u1",
				Labels: map[string]string{"app": "web"}}}}
		},
		ManifestName: func(p *v1.Pod) string { return strings.TrimSuffix(p.Name, "-n1") },
	}
}

func askUsage(t *testing.T, source Usage, path string) (int, string) {
	t.Helper()
	mux := http.NewServeMux()
	const group = "/apis/" + usageVersion
	for _, pattern := range []string{"/nodes", "/nodes/{name}"} {
		mux.HandleFunc("GET "+group+pattern, UsageHandler(source, "nodes"))
	}
	for _, pattern := range []string{"/pods", "/namespaces/{namespace}/pods", "/namespaces/{namespace}/pods/{name}"} {
		mux.HandleFunc("GET "+group+pattern, UsageHandler(source, "pods"))
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
		{"/namespaces/default/pods/web-n1", 200, `"metadata":{"name":"web-n1","namespace":"default",`},
		{"/namespaces/default/pods/web", 200, `"metadata":{"name":"web","namespace":"default",`},
		{"/namespaces/default/pods/web", 200,
			`"window":"7s","containers":[{"name":"a","usage":{"cpu":"300m","memory":"5Mi"}},{"name":"b","usage":{"cpu":"1n","memory":"1k"}}]`},
		{"/namespaces/apps/pods/new", 404, `pods \"new\" not found, or not measured yet`},
		{"/namespaces/apps/pods/web", 404, "not found"},
		{"/pods?fieldSelector=spec.x%3Dy", 400, "spec.x"},
		{"/pods?labelSelector=%3B", 400, "labelSelector"},
		{"/pods?watch=true", 405, "do not support watch"},
	} {
		code, body := askUsage(t, usageFixture(nil), c.path)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d\n%s\nwant %d with\n%s", c.path, code, body, c.code, c.want)
		}
	}
	for path, want := range map[string]string{
		"/pods": "web-n1 db", "/namespaces/apps/pods": "db", "/pods?labelSelector=app%3Dweb": "web-n1",
		"/pods?labelSelector=app!%3Dweb":         "db",
		"/pods?fieldSelector=metadata.name%3Ddb": "db", "/nodes?labelSelector=zone%3Db": "",
	} {
		code, body := askUsage(t, usageFixture(nil), path)
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
	if code, body := askUsage(t, usageFixture(errors.New("no disk")), "/pods"); code != 503 ||
		!strings.Contains(body, "no disk") {
		t.Errorf("a fault: %d %s", code, body)
	}
}
