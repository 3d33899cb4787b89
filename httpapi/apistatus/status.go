package apistatus

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reasons are the machine-readable reasons of the HTTP status codes. A client takes another
// code for an internal error.
var reasons = map[int]metav1.StatusReason{
	http.StatusBadRequest:            metav1.StatusReasonBadRequest,
	http.StatusUnauthorized:          metav1.StatusReasonUnauthorized,
	http.StatusForbidden:             metav1.StatusReasonForbidden,
	http.StatusNotFound:              metav1.StatusReasonNotFound,
	http.StatusMethodNotAllowed:      metav1.StatusReasonMethodNotAllowed,
	http.StatusNotAcceptable:         metav1.StatusReasonNotAcceptable,
	http.StatusRequestTimeout:        metav1.StatusReasonTimeout,
	http.StatusConflict:              metav1.StatusReasonConflict,
	http.StatusGone:                  metav1.StatusReasonExpired,
	http.StatusRequestEntityTooLarge: metav1.StatusReasonRequestEntityTooLarge,
	http.StatusUnsupportedMediaType:  metav1.StatusReasonUnsupportedMediaType,
	http.StatusUnprocessableEntity:   metav1.StatusReasonInvalid,
	http.StatusTooManyRequests:       metav1.StatusReasonTooManyRequests,
	http.StatusServiceUnavailable:    metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:        metav1.StatusReasonTimeout,
}

// New returns a failure with the reason of its HTTP status code. It has no details yet; Write
// adds them.
func New(code int, format string, args ...any) *metav1.Status {
	reason, known := reasons[code]
	if !known {
		reason = metav1.StatusReasonInternalError
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprintf(format, args...),
	}
}

// WithCause adds to a failure which field or parameter causes it, and returns it. The message
// of the cause is that of the failure.
func WithCause(s *metav1.Status, kind metav1.CauseType, field string) *metav1.Status {
	if s.Details == nil {
		s.Details = &metav1.StatusDetails{}
	}
	s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{Type: kind, Message: s.Message, Field: field})
	return s
}

// Write serves a request with a failure, whose details name the object of the request. The
// details are never absent: kubectl reads the details of an error without checking that there
// are any.
func Write(w http.ResponseWriter, r *http.Request, s *metav1.Status) {
	if s.Details == nil {
		s.Details = &metav1.StatusDetails{}
	}
	if d := s.Details; d.Kind == "" && d.Group == "" {
		name := d.Name
		d.Group, d.Kind, d.Name = ObjectOf(r.URL.Path)
		if name != "" {
			d.Name = name
		}
	}
	body, err := json.Marshal(s)
	if err != nil { // strings and numbers only
		http.Error(w, s.Message, int(s.Code))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(s.Code))
	_, _ = w.Write(body) // a client that has disconnected needs no response
}

// Error serves a request with a failure: a Status on the paths of an API, text on others.
func Error(w http.ResponseWriter, r *http.Request, code int, format string, args ...any) {
	if !IsAPI(r.URL.Path) {
		http.Error(w, fmt.Sprintf(format, args...), code)
		return
	}
	Write(w, r, New(code, format, args...))
}

// IsAPI reports whether a path belongs to the Kubernetes API or to podstead's own.
func IsAPI(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "api", "apis", "openapi", "version", "podstead":
		return true
	}
	return false
}

// ObjectOf returns the API group, the resource and the name of the object that a path names.
// They are empty if the path has none.
func ObjectOf(path string) (group, resource, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "podstead" && len(parts) == 5 && parts[2] == "volumes":
		return "", "persistentvolumeclaims", parts[4]
	case parts[0] == "podstead" && len(parts) > 2 && parts[2] != "namespaces":
		return "", parts[2], "" // what follows is a verb
	case parts[0] == "api" && len(parts) > 2, parts[0] == "podstead" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		group, parts = parts[1], parts[3:]
	case streams[parts[0]] && len(parts) > 2:
		return "", "pods", parts[2]
	default:
		return "", "", ""
	}
	// namespaces/NAME is a namespace, namespaces/NAME/RESOURCE the objects in it.
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 1 {
		name = parts[1]
	}
	return group, parts[0], name
}

// streams are the kubelet's endpoints whose paths continue with the namespace and the name of a
// pod.
var streams = map[string]bool{"containerLogs": true, "exec": true, "attach": true, "portForward": true, "run": true,
	"checkpoint": true}
