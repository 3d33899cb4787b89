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
type restarter struct {
	asked []types.UID
	err   error
}

func (r *restarter) Restart(uid types.UID, reason string, notBefore time.Time) error {
	if reason == "" || !notBefore.IsZero() {
		return errors.New("a restart has a reason and is at once")
	}
	r.asked = append(r.asked, uid)
	return r.err
}

// A pod is restarted by either of its names, by whoever may change the node.
func TestRestartPod(t *testing.T) {
	for _, c := range []struct {
		path   string
		may    access.Class
		err    error
		status int
		word   string
	}{
		{path: "default/pods/web-n1", may: access.Admin, status: 200, word: `"name":"web-n1"`},
		{path: "default/pods/web", may: access.Admin, status: 200, word: `"name":"web-n1"`},
		{path: "default/pods/none", may: access.Admin, status: 404, word: "there is web"},
		{path: "other/pods/web", may: access.Admin, status: 404, word: "no pod"},
		{path: "default/pods/web", may: access.Admin, err: errors.New("it has ended"), status: 409, word: "it has ended"},
		{path: "default/pods/web", may: access.Read | access.Exec, status: 404},
	} {
		r := &restarter{err: c.err}
		src := fixture{}.sources()
		src.Restarter, src.ManifestName = r, func(p *v1.Pod) string { return strings.TrimSuffix(p.Name, "-n1") }
		w := httptest.NewRecorder()
		serving(Routes(src), c.may).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/podstead/v1/namespaces/"+c.path+"/restart", nil))
		status, body := w.Code, w.Body.String()
		if status != c.status || !strings.Contains(body, c.word) || (len(r.asked) == 1) != (status == 200 || status == 409) {
			t.Errorf("%s as %v: %d %s %v", c.path, c.may, status, body, r.asked)
		}
	}
}
