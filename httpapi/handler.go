package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/access"
)

// authenticate returns the caller of a request. Its error is sent to the client.
type authenticate func(*http.Request) (access.Caller, error)

// anonymous grants the given classes to every caller.
func anonymous(classes access.Class) authenticate {
	return func(*http.Request) (access.Caller, error) { return access.Caller{Classes: classes}, nil }
}

// handler serves the routes of the classes that a listener allows, to callers of these
// classes. A route of another class is answered with 404, as if it did not exist; it is
// registered nevertheless, so that no wider pattern answers in its place. The mux
// answers a known path with another method with 405, and an unknown path with 404.
func handler(routes []Route, allowed access.Class, authenticate authenticate) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(strings.TrimSpace(route.Method+" "+route.Path), authorized(route, allowed))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := authenticate(r)
		switch {
		case errors.Is(err, access.ErrClusterUnavailable):
			writeError(w, r, http.StatusServiceUnavailable, err.Error())
			return
		case err != nil:
			// Clients that are not authenticated may not keep connections.
			w.Header().Set("Connection", "close")
			writeError(w, r, http.StatusUnauthorized, "Unauthorized: "+err.Error())
			return
		case impersonates(r.Header):
			writeError(w, r, http.StatusForbidden, "impersonation is not supported: send the request without --as and the Impersonate headers; create credentials with fewer permissions with podstead kubeconfig --role")
			return
		}
		// The body of a copy is limited: the server inspects the body of its own request
		// to find out whether the client still waits for "100 Continue".
		r = r.WithContext(access.WithCaller(r.Context(), caller))
		limitBody(w, r)
		mux.ServeHTTP(w, r)
	})
}

// impersonates reports whether a request asks for the permissions of another user. With the
// caller's own permissions it must not be answered: a client that impersonates a user to find
// out what that user may do would take the answer for the user's.
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
			http.NotFound(w, r)
			return
		}
		caller, reason, err := access.CallerFrom(r.Context()).Authorize(r, route.Access, route.Path)
		switch {
		case err != nil:
			writeError(w, r, http.StatusServiceUnavailable, err.Error())
		case reason != "":
			writeError(w, r, http.StatusForbidden, reason)
		case !validNames(r, parameters):
			writeError(w, r, http.StatusNotFound, "the path contains an invalid object name")
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

// writeError answers a request with an error: clients of the Kubernetes API get a
// Status, others text.
func writeError(w http.ResponseWriter, r *http.Request, code int, message string) {
	if !strings.HasPrefix(r.URL.Path, "/api") && !strings.HasPrefix(r.URL.Path, "/openapi") && r.URL.Path != "/version" {
		http.Error(w, message, code)
		return
	}
	reason := metav1.StatusReasonForbidden
	switch code {
	case http.StatusUnauthorized:
		reason = metav1.StatusReasonUnauthorized
	case http.StatusServiceUnavailable:
		reason = metav1.StatusReasonServiceUnavailable
	case http.StatusNotFound:
		reason = metav1.StatusReasonNotFound
	}
	writeStatus(w, code, reason, "%s", message)
}

// writeStatus answers with a Status of the Kubernetes API, whose message clients show.
func writeStatus(w http.ResponseWriter, code int, reason metav1.StatusReason, format string, args ...any) {
	body, err := json.Marshal(&metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprintf(format, args...),
	})
	if err != nil {
		http.Error(w, fmt.Sprintf(format, args...), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that has disconnected needs no answer
}

// writeJSON answers with v. It encodes v before it sends the first byte, so that an
// encoding error becomes a 500 and not a truncated answer.
func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "failed to encode the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // a client that has disconnected needs no answer
}

// clearDeadlines removes the server's deadlines from a request that may take long.
// Without a read deadline the server still notices that the client has disconnected.
func clearDeadlines(w http.ResponseWriter) error {
	c := http.NewResponseController(w)
	return errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{}))
}
