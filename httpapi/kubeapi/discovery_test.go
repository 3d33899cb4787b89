package kubeapi

import (
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/statefile"
)

func TestDiscoveryListsOtherGroups(t *testing.T) {
	v := OpenVersions("", statefile.Disk{})
	api := New(Config{Versions: v, Groups: []metav1.APIResourceList{{
		GroupVersion: "metrics.k8s.io/v1beta1",
		APIResources: []metav1.APIResource{
			{Name: "nodes", SingularName: "", Kind: "NodeMetrics", Verbs: metav1.Verbs{"get", "list"}}},
	}}})
	for path, want := range map[string]string{
		"/apis":                         `"groups":[{"name":"metrics.k8s.io","versions":[{"groupVersion":"metrics.k8s.io/v1beta1","version":"v1beta1"}],"preferredVersion":{"groupVersion":"metrics.k8s.io/v1beta1","version":"v1beta1"}},{"name":"apiextensions.k8s.io"`,
		"/apis/metrics.k8s.io":          `"kind":"APIGroup","apiVersion":"v1","name":"metrics.k8s.io"`,
		"/apis/metrics.k8s.io/v1beta1":  `"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metrics.k8s.io/v1beta1","resources":[{"name":"nodes"`,
		"/apis/metrics.k8s.io/v1beta1/": `"NodeMetrics"`,
	} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("GET %s = %d %s, want %s", path, w.Code, w.Body, want)
		}
	}
}
