package podinputs

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

func TestServicesForVariables(t *testing.T) {
	bound := &testClusterObjects{testObjects: newTestObjects()}
	api := service("default", "kubernetes", "10.0.0.1", v1.ServicePort{Port: 443})
	bound.services = map[string][]*v1.Service{
		"default": {service("default", "db", "10.0.0.3", v1.ServicePort{Port: 1}), api},
		"shop":    {service("shop", "web", "10.0.0.2", v1.ServicePort{Port: 80})},
	}
	r := New(Config{ClusterObjects: bound})
	no := false
	for name, c := range map[string]struct {
		namespace string
		links     *bool
		source    manifest.Source
		want      string
	}{
		"its namespace and the API server": {"shop", nil, manifest.SourceAPI, "web kubernetes"},
		"the API server once":              {"default", nil, manifest.SourceAPI, "db kubernetes"},
		"without links":                    {"shop", &no, manifest.SourceAPI, "kubernetes"},
		"a static pod":                     {"shop", nil, manifest.SourceFile, ""},
	} {
		pod := testPod("web")
		pod.Namespace, pod.Spec.EnableServiceLinks = c.namespace, c.links
		pod.Annotations[podinfo.AnnotationSource] = string(c.source)
		var names []string
		for _, service := range r.services(pod) {
			names = append(names, service.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
