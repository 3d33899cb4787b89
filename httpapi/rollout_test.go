package httpapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/access"
)

// fakeRollouts records what is requested.
type fakeRollouts struct{ requested string }

func (f *fakeRollouts) Rollouts() []api.Rollout {
	return []api.Rollout{{Namespace: "default", Name: "web-n1", State: "Stable", Revision: "1111111111"}}
}

func (f *fakeRollouts) History(name string) ([]api.RolloutRevision, error) {
	return []api.RolloutRevision{{Revision: "1111111111", Rejected: name}}, nil
}

func (f *fakeRollouts) Undo(name, revision string) error {
	f.requested = strings.TrimSuffix("undo "+name+" "+revision, " ")
	if revision == "none" {
		return fmt.Errorf("pod %s: %w", name, api.ErrNoRevision)
	}
	return nil
}

func (f *fakeRollouts) Retry(name string) error {
	f.requested = "retry " + name
	return errors.New("nothing to retry")
}

func TestRolloutRoutes(t *testing.T) {
	const pod = "/namespaces/default/pods/web/rollout/"
	for _, c := range []struct {
		method, path, source string
		classes              access.Class
		status               int
		want, requested      string
	}{
		{method: "GET", path: "/rollouts", classes: access.Read, status: 200,
			want: `[{"namespace":"default","name":"web-n1","state":"Stable","revision":"1111111111"}]`},
		{method: "GET", path: pod + "history", classes: access.Read, status: 200,
			want: `[{"revision":"1111111111","ready":false,"inEffect":false,"inManifest":false,"rejected":"default/web-n1"}]`},
		{method: "POST", path: pod + "undo", classes: access.Read, status: 404},
		{method: "POST", path: pod + "undo", classes: access.Write, status: 200, want: `"state":"Stable"`,
			requested: "undo default/web-n1"},
		{method: "POST", path: pod + "undo?revision=1111111111", classes: access.Write, status: 200,
			requested: "undo default/web-n1 1111111111"},
		{method: "POST", path: pod + "undo?revision=none", classes: access.Write, status: 404,
			want: "podstead rollout history lists the revisions", requested: "undo default/web-n1 none"},
		{method: "POST", path: pod + "retry", classes: access.Write, status: 409, want: "nothing to retry",
			requested: "retry default/web-n1"},
		{method: "POST", path: pod + "retry", source: "api", classes: access.Write, status: 409,
			want: "belongs to an API server"},
		{method: "GET", path: "/namespaces/default/pods/none/rollout/history", classes: access.Read, status: 404,
			want: "not found"},
	} {
		f := &fakeRollouts{}
		src := fakeSources{}.sources()
		p := src.Pods.Pods()[0].DeepCopy()
		p.Annotations = map[string]string{"kubernetes.io/config.source": c.source}
		src.Rollouts, src.Pods = f, podList{p}
		src.ManifestName = func(p *v1.Pod) string { return strings.TrimSuffix(p.Name, "-n1") }
		status, body := call(t, src, c.classes, c.method, c.path)
		if status != c.status || !strings.Contains(body, c.want) || f.requested != c.requested {
			t.Errorf("%s %s: %d %s, requested %q", c.method, c.path, status, body, f.requested)
		}
	}
}
