package httpapi

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podstead/podstead/httpapi/access"
)

// serveClasses serves the routes as a listener that grants some classes to every caller.
func serveClasses(routes []Route, allowed access.Class) http.Handler {
	return handler(routes, allowed, anonymous(allowed))
}

// call requests a path of podstead's own API as a client of some classes, and returns the
// status and the body of the response.
func call(t *testing.T, src Sources, classes access.Class, method, path string) (status int, body string) {
	t.Helper()
	s := httptest.NewServer(serveClasses(Routes(src), classes))
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/podstead/v1"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// testRoutes returns a route of each class, and one below a wider one of another class.
func testRoutes() []Route {
	ok := func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("by " + access.CallerFrom(r.Context()).User + " at " + r.Pattern))
	}
	return []Route{
		{"GET", "/healthz", access.Health, ok},
		{"GET", "/metrics", access.Metrics, ok},
		{"GET", "/pods", access.Read, ok},
		{"GET", "/containerLogs", access.Logs, ok},
		{"", "/exec", access.Exec, ok},
		{"POST", "/podstead/v1/restart", access.Admin, ok},
		{"", "/api/", access.Read, ok},
		{"POST", "/api/v1/pods/exec", access.Exec, ok},
	}
}

func request(h http.Handler, method, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

func TestRolesAndClasses(t *testing.T) {
	as := func(role access.Role) http.Handler {
		return handler(testRoutes(), access.All, func(*http.Request) (access.Caller, error) {
			return access.Caller{User: "eve", Classes: role.Classes()}, nil
		})
	}
	for _, c := range []struct {
		method, path      string
		read, exec, admin int
	}{
		{"GET", "/healthz", 200, 200, 200},
		{"GET", "/metrics", 200, 200, 200},
		{"GET", "/pods", 200, 200, 200},
		{"GET", "/containerLogs", 200, 200, 200},
		{"POST", "/exec", 403, 200, 200},
		{"GET", "/exec", 403, 200, 200},
		{"POST", "/podstead/v1/restart", 403, 403, 200},
		{"POST", "/api/v1/pods/exec", 403, 200, 200},
		{"GET", "/api/v1/pods/exec", 200, 200, 200}, // the wider route, which is of the class read
		{"GET", "/nowhere", 404, 404, 404},
	} {
		for role, want := range map[access.Role]int{access.RoleRead: c.read, access.RoleExec: c.exec,
			access.RoleAdmin: c.admin} {
			code, body := request(as(role), c.method, c.path)
			if code != want {
				t.Errorf("%s %s as %s = %d %q, want %d", c.method, c.path, role, code, body, want)
			}
			if code == 403 && !strings.Contains(body, `eve`) {
				t.Errorf("%s %s as %s does not name the user: %s", c.method, c.path, role, body)
			}
		}
	}
}

func TestListenerHidesRoutesOfOtherClasses(t *testing.T) {
	readOnly := serveClasses(testRoutes(), access.Health|access.Metrics|access.Read)
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/pods": 200, "/api/v1/pods": 200,
		"/containerLogs": 404, "/exec": 404} {
		if code, body := request(readOnly, "GET", path); code != want {
			t.Errorf("GET %s = %d %q, want %d", path, code, body, want)
		}
	}
	// The wider route must not respond for the one that is hidden.
	if code, body := request(readOnly, "POST", "/api/v1/pods/exec"); code != 404 {
		t.Errorf("POST /api/v1/pods/exec = %d %q, want 404", code, body)
	}
}

func TestUnauthenticatedCallerGets401(t *testing.T) {
	h := handler(testRoutes(), access.All,
		func(*http.Request) (access.Caller, error) { return access.Caller{}, errors.New("Unauthorized") })
	for _, path := range []string{"/healthz", "/pods", "/nowhere", "/api/v1/pods"} {
		if code, body := request(h, "GET", path); code != 401 || !strings.Contains(body, "Unauthorized") {
			t.Errorf("GET %s = %d %q, want 401", path, code, body)
		}
	}
	if _, body := request(h, "GET", "/api/v1/pods"); !strings.Contains(body, `"kind":"Status"`) ||
		!strings.Contains(body, `"reason":"Unauthorized"`) {
		t.Errorf("the Kubernetes API answers %s", body)
	}
}

// A request that impersonates a user is not responded with the permissions of its caller.
func TestImpersonationIsForbidden(t *testing.T) {
	admin := handler(testRoutes(), access.All, func(*http.Request) (access.Caller, error) {
		return access.Caller{User: "eve", Classes: access.All}, nil
	})
	for _, name := range []string{"Impersonate-User", "impersonate-group", "Impersonate-Uid", "Impersonate-Extra-scopes"} {
		for path, status := range map[string]bool{"/api/v1/secrets": true, "/pods": false} {
			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set(name, "bob")
			w := httptest.NewRecorder()
			admin.ServeHTTP(w, r)
			if w.Code != 403 || !strings.Contains(w.Body.String(), "impersonation is not supported") ||
				strings.Contains(w.Body.String(), `"reason":"Forbidden"`) != status {
				t.Errorf("GET %s with %s = %d %s", path, name, w.Code, w.Body)
			}
		}
	}
}
