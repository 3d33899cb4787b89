package httpapi

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/access"
)

// fakeUpdater records what is to be checked.
type fakeUpdater struct{ checked string }

func (u *fakeUpdater) AutoUpdates() []api.AutoUpdate { return nil }

func (u *fakeUpdater) CheckUpdates(_ context.Context, names []string, dryRun bool) ([]api.AutoUpdate, error) {
	u.checked = fmt.Sprint(names, dryRun)
	return []api.AutoUpdate{{Name: "web-n1", Containers: []api.ContainerImageUpdate{}}}, nil
}

func TestCheckUpdates(t *testing.T) {
	for _, c := range []struct {
		method, query, annotation, source string
		classes                           access.Class
		status                            int
		want, checked                     string
	}{
		{method: "GET", classes: access.Read, status: 200, want: "[]"},
		{method: "POST", classes: access.Read, status: 404},
		{method: "POST", classes: access.Write, status: 200,
			want: `[{"namespace":"","name":"web-n1","policy":"","containers":[]}]`, checked: "[] false"},
		{method: "POST", query: "?pod=default/web&dryRun=true", annotation: "registry", classes: access.Write, status: 200,
			want: "web-n1", checked: "[default/web-n1] true"},
		{method: "POST", query: "?pod=default/web", classes: access.Write, status: 409,
			want: "has no annotation podstead.io/auto-update; add it to the manifest"},
		{method: "POST", query: "?pod=default/web", annotation: "local", source: "api", classes: access.Write, status: 409,
			want: "belongs to an API server"},
		{method: "POST", query: "?pod=default/none", classes: access.Write, status: 404, want: "not found"},
		{method: "POST", query: "?pod=web", classes: access.Write, status: 400, want: "must be NAMESPACE/NAME"},
		{method: "POST", query: "?dryRun=maybe", classes: access.Write, status: 400, want: "must be true or false"},
	} {
		u := &fakeUpdater{}
		src := fakeSources{}.sources()
		pod := src.Pods.Pods()[0].DeepCopy()
		pod.Annotations = map[string]string{"kubernetes.io/config.source": c.source}
		if c.annotation != "" {
			pod.Annotations["podstead.io/auto-update"] = c.annotation
		}
		src.AutoUpdates, src.Pods = u, podList{pod}
		src.ManifestName = func(p *v1.Pod) string { return strings.TrimSuffix(p.Name, "-n1") }
		status, body := call(t, src, c.classes, c.method, "/auto-update"+c.query)
		if status != c.status || !strings.Contains(body, c.want) || u.checked != c.checked {
			t.Errorf("%s %s: %d %s, checked %q", c.method, c.query, status, body, u.checked)
		}
	}
}

// podList is a PodLister.
type podList []*v1.Pod

func (l podList) Pods() []*v1.Pod { return l }
