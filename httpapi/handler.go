package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/apistatus"
)

// authenticate returns the caller of a request. Its error is sent to the client.
type authenticate func(*http.Request) (access.Caller, error)

// anonymous grants the given classes to every caller.
func anonymous(classes access.Class) authenticate {
	return func(*http.Request) (access.Caller, error) { return access.Caller{Classes: classes}, nil }
}

// handler serves the routes of the classes that a listener allows, to callers of these
// classes. A route of another class is served with 404, as if it did not exist; it is
// registered nevertheless, so that no wider pattern responds in its place. The mux
// serves a known path with another method with 405, and an unknown path with 404.
func handler(routes []Route, allowed access.Class, authenticate authenticate) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(strings.TrimSpace(route.Method+" "+route.Path), authorized(route, allowed))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := authenticate(r)
		switch {
		case errors.Is(err, access.ErrClusterUnavailable):
			apistatus.Error(w, r, http.StatusServiceUnavailable, "%v", err)
			return
		case err != nil:
			// Clients that are not authenticated may not keep connections.
			w.Header().Set("Connection", "close")
			apistatus.Error(w, r, http.StatusUnauthorized, "Unauthorized: %v", err)
			return
		case impersonates(r.Header):
			apistatus.Error(w, r, http.StatusForbidden, "impersonation is not supported: send the request without --as and "+
				"the Impersonate headers; create credentials with fewer permissions with podstead kubeconfig --role")
			return
		}
		// The body of a copy is limited: the server inspects the body of its own request
		// to find out whether the client still waits for "100 Continue".
		r = r.WithContext(access.WithCaller(r.Context(), caller))
		limitBody(w, r)
		if _, pattern := mux.Handler(r); pattern == "" && apistatus.IsAPI(r.URL.Path) {
			w = &routeErrors{ResponseWriter: w, request: r}
		}
		mux.ServeHTTP(w, r)
	})
}

// routeErrors is the response of the mux to a request without a route. It replaces the text of
// an error with a Status.
type routeErrors struct {
	http.ResponseWriter
	request *http.Request
	written bool
}

func (e *routeErrors) WriteHeader(code int) {
	if code < http.StatusBadRequest {
		e.ResponseWriter.WriteHeader(code) // a redirect to the canonical path
		return
	}
	e.written = true
	text := "podstead does not serve " + e.request.URL.Path
	if code == http.StatusMethodNotAllowed {
		text = fmt.Sprintf("%s does not support %s; it supports %s", e.request.URL.Path, e.request.Method,
			e.Header().Get("Allow"))
	}
	apistatus.Error(e.ResponseWriter, e.request, code, "%s", text)
}

func (e *routeErrors) Write(b []byte) (int, error) {
	if e.written {
		return len(b), nil
	}
	return e.ResponseWriter.Write(b)
}

// impersonates reports whether a request asks for the permissions of another user. With the
// caller's own permissions it must not be served: a client that impersonates a user to find
// out what that user may do would take the response for the user's.
func impersonates(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}

// authorized calls the handler of a route if the caller may use it and the path is
// valid.
func authorized(route Route, allowed access.Class) http.HandlerFunc {
	parameters := parametersOf(route.Path)
	return func(w http.ResponseWriter, r *http.Request) {
		if !allowed.Has(route.Access) {
			apistatus.Error(w, r, http.StatusNotFound, "404 page not found")
			return
		}
		caller, reason, err := access.CallerFrom(r.Context()).Authorize(r, route.Access, route.Path)
		switch {
		case err != nil:
			apistatus.Error(w, r, http.StatusServiceUnavailable, "%v", err)
		case reason != "":
			apistatus.Error(w, r, http.StatusForbidden, "%s", reason)
		case !validNames(r, parameters):
			apistatus.Error(w, r, http.StatusNotFound, "the path contains an invalid object name")
		default:
			route.Handle(w, r.WithContext(access.WithCaller(r.Context(), caller)))
		}
	}
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// parametersOf returns the names of the parameters of a path.
func parametersOf(path string) (names []string) {
	for _, m := range parameter.FindAllStringSubmatch(path, -1) {
		names = append(names, m[1])
	}
	return names
}

// maxName is the maximum length in bytes of a Kubernetes object name.
const maxName = 253

var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

// validNames reports whether every parameter can be a name or a UID. A slash or ".." can
// not, so that no handler has to check for them.
func validNames(r *http.Request, parameters []string) bool {
	for _, p := range parameters {
		if v := r.PathValue(p); len(v) > maxName || !name.MatchString(v) {
			return false
		}
	}
	return true
}

// writeJSON responds with v. It encodes v before it sends the first byte, so that an
// encoding error becomes a 500 and not a truncated response.
func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "failed to encode the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // a client that has disconnected needs no response
}

// clearDeadlines removes the server's deadlines from a request that may take long.
// Without a read deadline the server still notices that the client has disconnected.
func clearDeadlines(w http.ResponseWriter) error {
	c := http.NewResponseController(w)
	return errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{}))
}
