package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/access"
)

// restarter notes which pods were restarted.
type fakeRestarter struct {
	restarted []types.UID
	err       error
}

func (r *fakeRestarter) Restart(uid types.UID, reason string, notBefore time.Time) error {
	if reason == "" || !notBefore.IsZero() {
		return errors.New("a restart needs a reason and starts at once")
	}
	r.restarted = append(r.restarted, uid)
	return r.err
}

// A pod is restarted by either of its names, by callers of the class admin.
func TestRestartPod(t *testing.T) {
	for _, c := range []struct {
		path    string
		classes access.Class
		err     error
		status  int
		word    string
	}{
		{path: "default/pods/web-n1", classes: access.Write, status: 200, word: `"name":"web-n1"`},
		{path: "default/pods/web", classes: access.Write, status: 200, word: `"name":"web-n1"`},
		{path: "default/pods/none", classes: access.Write, status: 404, word: "pods: web"},
		{path: "other/pods/web", classes: access.Write, status: 404, word: "not found"},
		{path: "default/pods/web", classes: access.Write, err: errors.New("the pod has ended"), status: 409,
			word: "the pod has ended"},
		{path: "default/pods/web", classes: access.Read | access.Exec, status: 404},
	} {
		r := &fakeRestarter{err: c.err}
		src := fakeSources{}.sources()
		src.Restarter, src.ManifestName = r, func(p *v1.Pod) string { return strings.TrimSuffix(p.Name, "-n1") }
		w := httptest.NewRecorder()
		serveClasses(Routes(src), c.classes).ServeHTTP(w,
			httptest.NewRequest(http.MethodPost, "/podstead/v1/namespaces/"+c.path+"/restart", nil))
		status, body := w.Code, w.Body.String()
		if status != c.status || !strings.Contains(body, c.word) ||
			(len(r.restarted) == 1) != (status == 200 || status == 409) {
			t.Errorf("%s as %v: %d %s %v", c.path, c.classes, status, body, r.restarted)
		}
	}
}
